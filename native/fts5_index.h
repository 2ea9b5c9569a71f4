/*
** Reading the records in which FTS5 keeps an index: its segments, leaves, doclists and tombstones.
*/
#ifndef MEMDB0_FTS5_INDEX_H
#define MEMDB0_FTS5_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "sqlite3ext.h"

/* Returned where a record may be right, but is of a kind that is not read here: ask FTS5 itself. */
#define FTS5_NOT_READ (-1)

/* FTS5's limits: segments of an index, bytes of a token. */
#define FTS5_MOST_SEGMENTS 2000
#define FTS5_MOST_TOKEN_BYTES 32768

typedef struct Segment {
  int id;
  int first_leaf, last_leaf;
  int tombstone_pages;
} Segment;

/* The segments of an index, newest first. Of version 2 are those that mark deleted rows by tombstones. */
typedef struct Structure {
  int version;
  int count;
  Segment *segments;
  int64_t origin; /* the last one: each flush has its own */
} Structure;

/*
** The leaves of a segment, one at a time. `load` gets the next one: it sets data and size and returns SQLITE_ROW,
** or returns SQLITE_DONE, or an error. data lives until the next call.
*/
typedef struct Leaves Leaves;
struct Leaves {
  int (*load)(Leaves *);
  const uint8_t *data;
  int size;
  int number; /* of the leaf in its segment */
  int body;   /* where the footer begins */
};

/*
** What an occurrence in each column counts, and every combination of occurrences that was met with its sum. Number 0 is
** that of no occurrence. The key of a combination has a field of `width` bits for each column.
*/
#define FTS5_MOST_COLUMNS 8
#define FTS5_WEIGHED 0x80000000u
typedef struct Weights {
  int columns, width;
  double weight[FTS5_MOST_COLUMNS];
  uint8_t wanted[FTS5_MOST_COLUMNS]; /* whether an occurrence there counts at all */
  uint64_t *key;
  double *sum;
  uint32_t single[FTS5_MOST_COLUMNS]; /* the numbers of one occurrence in a column, as `list` tells them */
  int count;
  uint16_t *place; /* a hash table of numbers */
} Weights;

/* Rows, as bits from `base` on. */
typedef struct RowSet {
  int64_t base;
  uint64_t span;
  uint8_t *bits;
} RowSet;

/* A leaf of a doclist, and the first row that begins there. */
typedef struct Leaf {
  int64_t row;
  int number;
} Leaf;

/*
** The postings of a query. A row is the base of its Postings and an offset; `list` tells where in `bytes` its position
** list begins, or, with the bit FTS5_WEIGHED, the number of its combination.
*/
typedef struct Store {
  uint32_t *offset, *list;
  size_t count, room;
  uint8_t *bytes;
  size_t size, bytes_room;
  Leaf *leaf;
  size_t leaves, leaves_room;
} Store;

/* The postings of one term in one segment, ascending by row: those from `first` to before `past` in the store. */
typedef struct Postings {
  int64_t base;
  size_t first, past;
  size_t at, end;              /* for who reads them: the next one, and how far to read */
  size_t first_leaf, past_leaf; /* the leaves of the doclist in the store */
  int doclist, doclist_end;    /* where it begins on its first leaf, and where it ends if it does so there */
  int segment;
} Postings;

/* All of these return SQLITE_OK, SQLITE_CORRUPT, SQLITE_NOMEM, FTS5_NOT_READ or what `load` returned. */
int fts5_structure(const uint8_t *data, int size, Structure *structure);
int fts5_next_leaf(Leaves *leaves);
int fts5_find_term(const Leaves *leaves, const uint8_t *term, int term_size, int *at, int *end);
int fts5_postings(Leaves *leaves, int at, int end, const Weights *weights, int columns, const RowSet *deleted,
                  size_t enough, Store *store, Postings *postings);
int fts5_leaf_postings(Leaves *leaves, const Weights *weights, int columns, const RowSet *deleted, Store *store,
                       const Postings *postings, size_t leaf);
int fts5_number_list(Weights *weights, Store *store, size_t i, uint32_t *number);
int fts5_weigh_all(Weights *weights, int keep_empty, Store *store, Postings *postings);
void fts5_store_clear(Store *store);
int fts5_append_leaves(Store *store, const Leaf *leaf, size_t count);
int fts5_tombstones(const uint8_t *data, int size, int first, int64_t **rows, size_t *count, size_t *room);
int fts5_row_set(const int64_t *rows, size_t count, RowSet *set);
int fts5_newer_first(Store *store, Postings *newer, const Postings *older);
int fts5_document_size(const uint8_t *data, int size, int columns, uint32_t *tokens);

int fts5_weights_init(Weights *weights, int columns);
void fts5_weights_ready(Weights *weights);
void fts5_weights_clear(Weights *weights);

/*
** The number of the position list behind its size at p if it is the single occurrence of a column, `list` otherwise. Most
** are an offset, or 1, a column and an offset, of one byte each. No branches: which one comes is not to be guessed.
*/
static inline uint32_t fts5_single(const Weights *weights, const uint8_t *p, uint32_t list) {
  uint32_t first = (uint32_t)(p[0] == 2) & ((uint8_t)(p[1] - 2) < 126);
  uint32_t later = (uint32_t)(p[0] == 6) & (p[1] == 1) & ((uint8_t)(p[2] - 1) < weights->columns - 1) &
                   ((uint8_t)(p[3] - 2) < 126);
  uint32_t single = weights->single[p[2] & (0 - later) & (FTS5_MOST_COLUMNS - 1)];
  return list ^ ((list ^ single) & (0 - (first | later)));
}

/* Which combination of occurrences a posting has. A store ends in zeros: nothing is read behind it. */
static inline int fts5_number(Weights *weights, Store *store, size_t i, uint32_t *number) {
  uint32_t list = store->list[i];
  if (!(list & FTS5_WEIGHED)) list = fts5_single(weights, store->bytes + list, list);
  *number = list & ~FTS5_WEIGHED;
  return list & FTS5_WEIGHED ? SQLITE_OK : fts5_number_list(weights, store, i, number);
}

/* What they count together. */
static inline int fts5_weigh(Weights *weights, Store *store, size_t i, double *sum) {
  uint32_t number;
  int rc = fts5_number(weights, store, i, &number);
  *sum = weights->sum[rc == SQLITE_OK ? number : 0];
  return rc;
}

static inline int fts5_has(const RowSet *set, int64_t row) {
  uint64_t at = (uint64_t)row - (uint64_t)set->base;
  return at < set->span && (set->bits[at >> 3] >> (at & 7) & 1);
}

#endif
