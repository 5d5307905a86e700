/* SPDX-License-Identifier: MIT */
/* The list of findings: see doctor_finding.h. */
#include "client/kvctl/doctor_finding.h"

#include <stdarg.h>
#include <string.h>

#include "client/kvctl/json.h"
#include "common/util/text.h"

#define COLUMNS 100
#define TEXT_COLUMN 23

void findings_group(struct findings *findings, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(findings->group, sizeof(findings->group), format, args);
	va_end(args);
	text_mask(findings->group, strlen(findings->group));
}

void findings_add(struct findings *findings, enum severity severity, const char *check,
		  const char *fix, const char *format, ...)
{
	struct finding *finding = &findings->list[findings->count];
	va_list args;

	findings->of[severity]++;
	if (findings->count == FINDINGS_MAX) {
		findings->dropped++;
		return;
	}
	findings->count++;
	finding->severity = severity;
	finding->check = check;
	memcpy(finding->group, findings->group, sizeof(finding->group));
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
	text_mask(finding->text, strlen(finding->text));
	snprintf(finding->fix, sizeof(finding->fix), "%s", fix ? fix : "");
}

const char *severity_name(enum severity severity)
{
	static const char *const names[] = { "ok", "info", "warning", "error" };

	return names[severity];
}

static void summary_print(const struct findings *findings, FILE *out)
{
	const unsigned int errors = findings->of[SEVERITY_ERROR];
	const unsigned int warnings = findings->of[SEVERITY_WARNING];

	if (findings->dropped)
		fprintf(out, "\n%u more findings are not shown\n", findings->dropped);
	if (errors || warnings)
		fprintf(out, "\n%u error%s, %u warning%s\n", errors, errors == 1 ? "" : "s",
			warnings, warnings == 1 ? "" : "s");
	else
		fputs("\nNothing is wrong.\n", out);
}

/* Prints @text in lines of COLUMNS; the first line starts at TEXT_COLUMN. */
static void print_wrapped(const char *text, FILE *out)
{
	int column = TEXT_COLUMN;

	while (*text) {
		const int len = (int)strcspn(text, " ");

		if (column > TEXT_COLUMN && column + 1 + len > COLUMNS) {
			fprintf(out, "\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		}
		column += fprintf(out, "%s%.*s", column > TEXT_COLUMN ? " " : "", len, text);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

void findings_print(const struct findings *findings, FILE *out)
{
	const char *group = NULL;

	for (unsigned int i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->list[i];

		if (!group || strcmp(group, finding->group) != 0)
			fprintf(out, "%s%s\n", group ? "\n" : "", finding->group);
		group = finding->group;
		fprintf(out, "  %-8s %-11s ", severity_name(finding->severity), finding->check);
		print_wrapped(finding->text, out);
		if (*finding->fix) /* in one line, to be copied */
			fprintf(out, "%*sfix: %s\n", TEXT_COLUMN, "", finding->fix);
	}
	summary_print(findings, out);
}

static void json_print(const struct finding *finding, FILE *out)
{
	struct json json;

	json_begin(&json, out);
	json_open(&json, NULL, '{');
	json_text(&json, "group", finding->group);
	json_text(&json, "severity", severity_name(finding->severity));
	json_text(&json, "check", finding->check);
	json_text(&json, "text", finding->text);
	if (*finding->fix)
		json_text(&json, "fix", finding->fix);
	json_close(&json, '}');
	json_end(&json);
}

void findings_print_json(const struct findings *findings, FILE *out)
{
	struct json json;

	for (unsigned int i = 0; i < findings->count; i++)
		json_print(&findings->list[i], out);
	if (!findings->dropped)
		return;
	json_begin(&json, out);
	json_open(&json, NULL, '{');
	json_number(&json, "dropped", findings->dropped);
	json_close(&json, '}');
	json_end(&json);
}
