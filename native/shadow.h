/*
** Reading the shadow tables of one vec0 table. A file may come from a stranger: whatever it holds is checked before
** it is used, and what cannot be is SQLITE_CORRUPT.
*/
#ifndef MEMDB0_SHADOW_H
#define MEMDB0_SHADOW_H

#include "memdb0.h"

#define SHADOW_MAX_SLOTS 4096 /* of a chunk: vec0's own limit */

/* What is kept beside the vectors of a chunk, slot by slot. */
enum { SHADOW_VECTORS, SHADOW_ROWIDS, SHADOW_SCOPE, SHADOW_SAID, SHADOW_AXIS, SHADOW_KINDS };
#define SHADOW_TEXT_BYTES 16 /* of a short text: its length in 4 bytes, and its first 12 bytes */

typedef struct Shadow {
  sqlite3 *db;
  char *name;
  int dims;
  int slots;                         /* of every chunk */
  int number[SHADOW_KINDS];          /* of a metadata column among them; -1: the table has none */
  sqlite3_int64 last_chunk;          /* 0: there is none */
  sqlite3_stmt *chunks;              /* chunk_id, size, validity: of the chunk after the one that was told */
  sqlite3_int64 upcoming;            /* its number; 0: there is none; -1: nothing was told yet */
  uint8_t validity[SHADOW_MAX_SLOTS / 8]; /* of the chunk that was told */
  int followed;                      /* whether it has the next number: then vec0 fills no more slots of this one */
  sqlite3_blob *blob[SHADOW_KINDS];  /* open on the chunk `at`, or NULL */
  sqlite3_int64 at[SHADOW_KINDS];
  char *error;                       /* what is wrong, for sqlite3_free */
} Shadow;

/* Read how the vec0 table `name` of `main` is declared. SQLITE_ERROR, with `error`, for what is none, or one whose
** vectors are not of int8 and compared by cosine. Whatever comes back: shadow_close. */
int shadow_open(Shadow *shadow, sqlite3 *db, const char *name);
void shadow_close(Shadow *shadow);

/* The next chunk, from the first one on: SQLITE_ROW, SQLITE_DONE or an error. shadow->validity has a bit for each slot
** that holds a row. */
int shadow_next(Shadow *shadow, sqlite3_int64 *chunk);
void shadow_rewind(Shadow *shadow);

/* What a chunk keeps of one kind for n slots from `first` on. */
int shadow_read(Shadow *shadow, int kind, sqlite3_int64 chunk, int first, int n, void *out);

/* SQLITE_CORRUPT, and says what is wrong with a chunk. */
int shadow_corrupt(Shadow *shadow, const char *what, sqlite3_int64 chunk);

/* A statement with the table's name at %w. */
int shadow_prepare(Shadow *shadow, const char *format, sqlite3_stmt **statement);

#endif
