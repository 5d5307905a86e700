/* SPDX-License-Identifier: MIT */
/*
 * Included first into every file of a simulation (Makefile: -include). The compiler's
 * instrumentation for ThreadSanitizer, whose functions points.c defines, makes every access to
 * memory a scheduling point, in functions that are excluded from ThreadSanitizer too. What it does
 * not see is the pause of a spin loop.
 */
#ifndef KVD_TESTS_SIM_POINTS_H
#define KVD_TESTS_SIM_POINTS_H

void sim_relax(void);

#define __builtin_ia32_pause sim_relax
#define no_sanitize(what)

#endif /* KVD_TESTS_SIM_POINTS_H */
