/*
** The parts of the extension memdb0, and the arithmetic that they share.
*/
#ifndef MEMDB0_H
#define MEMDB0_H

#include <stdint.h>

#include <sqlite3ext.h>

/* Each part registers what it offers with one connection, and returns an SQLite result code. */
int memdb0_scan_init(sqlite3 *db);
int memdb0_match_init(sqlite3 *db);
int memdb0_lexical_init(sqlite3 *db);

/*
** One way to compute products of vectors. Every way gives the same numbers; they differ in the instructions of the
** processor they need. Dimensions are at most MEMDB0_MAX_DIMENSIONS, so that no sum leaves 32 bits.
*/
#define MEMDB0_MAX_DIMENSIONS 8192
#define MEMDB0_PLANES 4

typedef struct Kernel {
  const char *name;
  /* dot[i] = rows[i] . query and norm[i] = rows[i] . rows[i], for n rows of `dims` components, one after the other. */
  void (*products)(const int8_t *rows, int n, int dims, const int8_t *query, int32_t *dot, int32_t *norm);
  /* score[i] = the sum of the query's 4-bit components where the bits of codes[i] are set, for n codes of `bytes`.
  ** Plane p holds bit p of each component, the last one the sign; a plane has memdb0_plane_bytes(bytes). */
  void (*scores)(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score);
} Kernel;

/* Planes are padded with zeros to whole blocks of 64 bytes. */
static inline int memdb0_plane_bytes(int bytes) { return (bytes + 63) / 64 * 64; }

/* The kernel of that name, or NULL if this processor has it not; the fastest one if name is NULL. */
const Kernel *memdb0_kernel(const char *name);

#endif
