/*
** One search: what bounds it, and the best rows so far. Rows are compared exactly (search.c), or after a look at their
** codes (coded.c).
*/
#ifndef MEMDB0_SEARCH_H
#define MEMDB0_SEARCH_H

#include "shadow.h"

#define SEARCH_GROUP 64 /* vectors that are compared at once */

typedef sqlite3_int64 i64;

typedef struct Hit {
  float distance; /* INFINITY: of a vector without length */
  i64 id;
} Hit;

/* A vector by its place. */
typedef struct Candidate {
  i64 chunk;
  int32_t slot;
} Candidate;

typedef struct List {
  i64 *items; /* in order, without doubles */
  int n;
  int given;
} List;

typedef struct Search {
  Shadow shadow;
  const Kernel *kernel;
  int8_t *query;
  int32_t query_norm;
  /* What bounds the search. */
  List scopes, ids;
  int next_id; /* of the list, at or after the rowid that was looked at last */
  i64 said_from, said_until;
  char *axis; /* of axis_bytes, a NUL among them or not */
  int axis_bytes;
  float within;
  int only_exact, only_coded;
  /* The best so far: a heap with the worst on top. */
  int k, n;
  Hit *hits;
  double least_cosine_squared; /* of a row that may still enter, times the query's norm; 0: any row may */
  /* Room for one chunk. */
  uint8_t *live;
  i64 *values;
  i64 *rowids;
  i64 rowids_of; /* the chunk whose rowids these are; 0: none */
  int8_t *rows;
} Search;

/* A search that nothing bounds. */
void search_init(Search *search);
/* The vec0 table it is in, the blob whose k nearest it looks for, and room for them. Whatever comes back: search_free. */
int search_open(Search *search, sqlite3 *db, const char *name, sqlite3_value *vector, int k);
void search_free(Search *search);
/* Nothing found yet. */
void search_start(Search *search);
/* Find them, by whichever way is fastest. */
int search_best(Search *search);
/* What was found, nearest first. */
void search_sort(Search *search);

int search_bounds_said(const Search *search);

/* The whole table, or the rows of search->ids. */
int search_exactly(Search *search);
int search_ids(Search *search);
/* By codes, as far as there are any. */
int search_coded(Search *search);

static inline int is_live(const uint8_t *live, int slot) { return live[slot >> 3] >> (slot & 7) & 1; }

/* The next chunk with the slots that are to be looked at in search->live: SQLITE_ROW, SQLITE_DONE or an error. An
** interrupt is noticed here. */
int search_next_chunk(Search *search, i64 *chunk);
/* Compare the live slots of that chunk from `first` to before `end`. */
int search_slots(Search *search, i64 chunk, int first, int end);
/* Compare candidates exactly: fastest in the order of the file. */
int search_candidates(Search *search, const Candidate *candidates, i64 n);

#endif
