/* SPDX-License-Identifier: MIT */
/*
 * A list whose links are in its elements: an element is removed without knowing which list it is
 * in.
 */
#ifndef KVD_CLIENT_LIBKVD_LIST_H
#define KVD_CLIENT_LIBKVD_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A link of an element, or the head of a list. */
struct list {
	struct list *next, *prev;
};

#define list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_insert(struct list *link, struct list *prev)
{
	link->next = prev->next;
	link->prev = prev;
	prev->next->prev = link;
	prev->next = link;
}

static inline void list_add(struct list *head, struct list *link)
{
	list_insert(link, head->prev);
}

static inline void list_add_first(struct list *head, struct list *link)
{
	list_insert(link, head);
}

static inline void list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

/* Moves all of @from to the end of @to. */
static inline void list_move_all(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#endif /* KVD_CLIENT_LIBKVD_LIST_H */
