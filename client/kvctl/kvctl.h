/* SPDX-License-Identifier: MIT */
/* The whole program, apart from main(): tests call it, too. */
#ifndef KVD_CLIENT_KVCTL_KVCTL_H
#define KVD_CLIENT_KVCTL_KVCTL_H

/* Does what the command line says. Returns the exit status. */
int kvctl_main(int argc, char **argv);

#endif /* KVD_CLIENT_KVCTL_KVCTL_H */
