/*
** Scoring of the rows that have terms, block by block (see lexical.c).
**
** A block is BLOCK_ROWS rows in turn. For each term in its turn the postings of the block are added to an array of
** sums, so that these are the very ones of bm25(). The heap of the best rows tells which terms a row must have to enter it:
** the postings of the others are looked at only in rows that have one of these. Lengths of rows are in X_length, which
** memdb keeps, or else in X_docsize, a record for each row: then a first pass as if rows had no length, which only
** lifts scores, sorts out whose length is to be looked up at all.
**
** Terms that are in half of the rows or more are set apart (postings.c): what they add is so little that first the rows are
** scored without them. Those that come into the portion, or so near that such terms may lift them into it, are scored
** once more with all terms. Where nothing but such terms decides, these are read too.
*/
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lexical.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT3
#endif

#define LENGTH_ROWS 2000 /* of a record of X_length; divides BLOCK_ROWS */
#define LENGTH_HEAD 16   /* bytes before the lengths in such a record: its rows and tokens */
#define LEAST_TABLED 32  /* candidates of a block from which on records of X_length are read */
#define MANY_TOKENS 65535 /* a length that X_length does not tell */
#define LEAST_SCANNED 512 /* postings of a block from which on its lengths are read in a row */
#define FIRST_HITS 128     /* for which there is room at first */
#define SLACK (1 - 1e-9)   /* rough scores differ by less */

static bool is_worse(const Hit *a, const Hit *b) {
  return a->score < b->score || (a->score == b->score && a->id > b->id);
}

static void sift_down(Hit *heap, int count, int at) {
  Hit moved = heap[at];
  for (;;) {
    int child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && is_worse(&heap[child + 1], &heap[child])) child++;
    if (!is_worse(&heap[child], &moved)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

/* The score below which a row cannot come into the portion, whatever terms set apart add. */
static double least_score(const Cursor *cursor) {
  return cursor->count == cursor->portion ? cursor->hits[0].score * SLACK - cursor->query.apart - 1e-300 : -1.0;
}

static int append_hit(Hit **hits, size_t *room, size_t count, const Hit *hit) {
  if (count == *room) {
    size_t more = *room ? 2 * *room : FIRST_HITS;
    Hit *grown = sqlite3_realloc64(*hits, more * sizeof *grown);
    if (grown == NULL) return SQLITE_NOMEM;
    *hits = grown;
    *room = more;
  }
  (*hits)[count] = *hit;
  return SQLITE_OK;
}

static int keep_near(Cursor *cursor, const Hit *hit) {
  double least = least_score(cursor);
  if (hit->score < least) return SQLITE_OK;
  if (cursor->near_count == cursor->near_room) {
    size_t kept = 0;
    for (size_t i = 0; i < cursor->near_count; i++) {
      if (cursor->near[i].score >= least) cursor->near[kept++] = cursor->near[i];
    }
    /* Grow when little went: else this would be done for each row. */
    cursor->near_count = kept;
    if (kept > cursor->near_room / 2) {
      Hit *grown = sqlite3_realloc64(cursor->near, 2 * cursor->near_room * sizeof *grown);
      if (grown == NULL) return SQLITE_NOMEM;
      cursor->near = grown;
      cursor->near_room *= 2;
    }
  }
  return append_hit(&cursor->near, &cursor->near_room, cursor->near_count++, hit);
}

/* Put a row into the portion: into a place that is left, or that of the worst one. */
static int put_hit(Cursor *cursor, const Hit *hit) {
  if (cursor->count == cursor->portion) {
    cursor->hits[0] = *hit;
    sift_down(cursor->hits, cursor->count, 0);
    return SQLITE_OK;
  }
  int rc = append_hit(&cursor->hits, &cursor->room, (size_t)cursor->count, hit);
  if (rc != SQLITE_OK) return rc;
  if (++cursor->count == cursor->portion) {
    for (int i = cursor->count / 2 - 1; i >= 0; i--) sift_down(cursor->hits, cursor->count, i);
  }
  return SQLITE_OK;
}

/* Keep a row in the portion if it comes after the portions before and there are not enough better ones. */
static inline int offer(Cursor *cursor, double score, int64_t id, uint16_t length) {
  const bool full = cursor->count == cursor->portion, rough = cursor->query.rough;
  if (full && score < cursor->hits[0].score && !rough) return SQLITE_OK;
  Hit hit = {score, id, length};
  if (!rough) {
    if (cursor->begun && !is_worse(&hit, &cursor->last)) return SQLITE_OK;
    return full && !is_worse(&cursor->hits[0], &hit) ? SQLITE_OK : put_hit(cursor, &hit);
  }
  if (!full) return put_hit(cursor, &hit);
  if (!is_worse(&cursor->hits[0], &hit)) return keep_near(cursor, &hit);
  hit = cursor->hits[0];
  Hit better = {score, id, length};
  int rc = put_hit(cursor, &better);
  return rc == SQLITE_OK ? keep_near(cursor, &hit) : rc;
}

/* The portion from a heap, or from no order yet, to best first. */
static void sort_portion(Cursor *cursor) {
  for (int i = cursor->count / 2 - 1; i >= 0; i--) sift_down(cursor->hits, cursor->count, i);
  for (int i = cursor->count - 1; i > 0; i--) {
    Hit worst = cursor->hits[0];
    cursor->hits[0] = cursor->hits[i];
    cursor->hits[i] = worst;
    sift_down(cursor->hits, i, 0);
  }
}

/* What the length of a row adds to the denominator of BM25. */
static double length_part(const Query *query, uint32_t length) {
  const double k1 = 1.2, b = 0.75;
  return k1 * (1 - b + b * (double)length / query->mean_length);
}

void lexical_prepare_scoring(Query *query) {
  for (int i = 0; i < FEW_TOKENS; i++) query->length_part[i] = length_part(query, (uint32_t)i);
  for (int number = 0; query->rough && number <= query->weights.columns; number++) {
    double f = query->weights.sum[number];
    for (int i = 0; i < GAIN_TOKENS; i++) {
      double all = f + query->length_part[i];
      query->gain[number][i] = f > 0.0 && all > 0.0 ? f * 2.2 / all : 0.0;
    }
  }
}

static int decode_length(const Query *query, sqlite3_stmt *statement, int column, uint32_t *length) {
  const uint8_t *data = sqlite3_column_blob(statement, column);
  if (data == NULL) return SQLITE_CORRUPT;
  return fts5_document_size(data, sqlite3_column_bytes(statement, column), query->weights.columns, length);
}

static int seek_length(Cursor *cursor, int64_t row, uint32_t *length) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module_of(cursor), cursor->query.index, ASK_LENGTH, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, row);
  rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    rc = decode_length(&cursor->query, statement, 0, length);
  } else if (rc == SQLITE_DONE) {
    rc = SQLITE_CORRUPT;
  }
  sqlite3_reset(statement);
  return rc;
}

/* The length of a row that X_length gives so. */
static inline int read_length(Cursor *cursor, int64_t row, uint16_t tabled, uint32_t *length) {
  if (tabled == 0 || tabled == MANY_TOKENS) return seek_length(cursor, row, length);
  *length = tabled - 1u;
  return SQLITE_OK;
}

static inline double part_of(const Query *query, uint32_t length) {
  return length < FEW_TOKENS ? query->length_part[length] : length_part(query, length);
}

/* The lengths of all rows of a block. */
static int read_lengths(Cursor *cursor, int64_t start) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module_of(cursor), cursor->query.index, ASK_LENGTHS, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, start);
  sqlite3_bind_int64(statement, 2, start + BLOCK_ROWS - 1);
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    uint64_t at = (uint64_t)sqlite3_column_int64(statement, 0) - (uint64_t)start;
    uint32_t length;
    rc = at < BLOCK_ROWS ? decode_length(&cursor->query, statement, 1, &length) : SQLITE_CORRUPT;
    if (rc != SQLITE_OK) break;
    cursor->length[at] = (uint16_t)(length < MANY_TOKENS - 1 ? length + 1 : MANY_TOKENS);
  }
  sqlite3_reset(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The lengths of the rows of a block as X_length has them: 16 bits each, 0 for no row, 65535 for too many tokens. */
static int read_tabled(Cursor *cursor, int64_t start) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module_of(cursor), cursor->query.index, ASK_TABLED, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, start / LENGTH_ROWS);
  sqlite3_bind_int64(statement, 2, start / LENGTH_ROWS + BLOCK_ROWS / LENGTH_ROWS - 1);
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    /* Whatever it says: a table that came with the file may compare its blocks as texts. */
    uint64_t record = (uint64_t)sqlite3_column_int64(statement, 0) - (uint64_t)(start / LENGTH_ROWS);
    const uint8_t *data = sqlite3_column_blob(statement, 1);
    int size = sqlite3_column_bytes(statement, 1);
    if (record >= BLOCK_ROWS / LENGTH_ROWS || data == NULL || size != LENGTH_HEAD + 2 * LENGTH_ROWS) continue;
    size_t at = (size_t)record * LENGTH_ROWS;
    data += LENGTH_HEAD;
    memcpy(cursor->length + at, data, 2 * LENGTH_ROWS);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < LENGTH_ROWS; i++) cursor->length[at + i] = (uint16_t)(data[2 * i] | data[2 * i + 1] << 8);
#endif
  }
  sqlite3_reset(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The least row that is still to be scored, or -1. */
static int64_t least_row(const Query *query) {
  int64_t least = -1;
  for (int i = 0; i < query->count; i++) {
    for (int j = 0; j < query->terms[i].count; j++) {
      const Postings *p = &query->terms[i].postings[j];
      if (p->at == p->past) continue;
      int64_t row = p->base + query->store.offset[p->at];
      if (least < 0 || row < least) least = row;
    }
  }
  return least;
}

/* Where the postings of the block end; the number of them in it. */
static size_t mark_block(const Store *store, Postings *postings, int64_t start) {
  size_t low = postings->at, step = 1;
  int64_t past = start + BLOCK_ROWS - postings->base;
  postings->end = low;
  if (past <= 0) return 0;
  while (low + step <= postings->past && store->offset[low + step - 1] < past) {
    low += step;
    step *= 2;
  }
  size_t high = low + step <= postings->past ? low + step - 1 : postings->past;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (store->offset[middle] < past) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  postings->end = low;
  return low - postings->at;
}

static inline bool is_candidate(const Cursor *cursor, uint32_t slot) {
  return cursor->candidate[slot >> 6] >> (slot & 63) & 1;
}

/*
** Add the postings of one term to the scores of the candidates in a block: what they add at most (`bound`), as if rows
** had no length, or what they add. The expressions are those of fts5_aux.c, so that the numbers are.
*/
static int add_postings(Cursor *cursor, const Term *term, const Postings *postings, int64_t start, bool bound) {
  Query *query = &cursor->query;
  Store *store = &query->store;
  const double k1 = 1.2, idf = term->idf;
  const uint32_t shift = (uint32_t)((uint64_t)start - (uint64_t)postings->base);
  for (size_t i = postings->at; i < postings->end; i++) {
    uint32_t slot = store->offset[i] - shift;
    if (!is_candidate(cursor, slot)) continue;
    double f, part = query->length_part[0];
    int rc = fts5_weigh(&query->weights, store, i, &f);
    if (rc == SQLITE_OK && !bound) {
      uint32_t length;
      rc = read_length(cursor, start + slot, cursor->measured ? cursor->length[slot] : 0, &length);
      if (rc == SQLITE_OK) part = part_of(query, length);
    }
    if (rc != SQLITE_OK) return rc;
    cursor->score[slot] += idf * ((f * (k1 + 1.0)) / (f + part));
  }
  return SQLITE_OK;
}

/* The same, nearly: what single occurrences add is looked up. The lengths of the block are known. */
static int add_roughly(Cursor *cursor, const Term *term, const Postings *postings, int64_t start) {
  Query *query = &cursor->query;
  Store *store = &query->store;
  const uint32_t shift = (uint32_t)((uint64_t)start - (uint64_t)postings->base);
  const uint32_t columns = (uint32_t)query->weights.columns;
  const bool every = term->essential;
  for (size_t i = postings->at; i < postings->end; i++) {
    uint32_t slot = store->offset[i] - shift, number, length;
    if (!every && !is_candidate(cursor, slot)) continue;
    int rc = fts5_number(&query->weights, store, i, &number);
    if (rc != SQLITE_OK) return rc;
    length = cursor->length[slot] - 1u;
    if (number <= columns && length < GAIN_TOKENS) {
      cursor->score[slot] += term->idf * query->gain[number][length];
      continue;
    }
    double f = query->weights.sum[number];
    rc = read_length(cursor, start + slot, cursor->length[slot], &length);
    if (rc != SQLITE_OK) return rc;
    cursor->score[slot] += term->idf * (f * 2.2 / (f + part_of(query, length)));
  }
  return SQLITE_OK;
}

static int add_all(Cursor *cursor, int64_t start, bool bound) {
  Query *query = &cursor->query;
  const bool rough = query->rough && cursor->measured && query->tabled;
  int rc = SQLITE_OK;
  for (int i = 0; i < query->count; i++) {
    Term *term = &query->terms[i];
    for (int j = 0; j < term->count && rc == SQLITE_OK; j++) {
      const Postings *postings = &term->postings[j];
      rc = rough ? add_roughly(cursor, term, postings, start) : add_postings(cursor, term, postings, start, bound);
    }
  }
  return rc;
}

static int lowest_bit(uint64_t word) {
#if defined(__GNUC__)
  return __builtin_ctzll(word);
#else
  int n = 0;
  for (; !(word & 1); word >>= 1) n++;
  return n;
#endif
}

/* Keep the candidates that may come before the worst row kept; the number of them. */
static size_t sift_candidates(Cursor *cursor) {
  size_t count = 0;
  double least = least_score(cursor);
  for (int i = 0; i < BLOCK_WORDS; i++) {
    for (uint64_t word = cursor->candidate[i]; word; word &= word - 1) {
      int slot = 64 * i + lowest_bit(word);
      if (cursor->score[slot] < least) cursor->candidate[i] ^= word & -word;
      count += cursor->score[slot] >= least;
      cursor->score[slot] = 0.0;
    }
  }
  return count;
}

/*
** The terms without which no row can come before the worst one kept, when the heap is full: all but those that together
** add less than its score. A posting adds at most idf * (k1 + 1), since f / (f + part) is at most 1.
*/
static void choose_essential(Cursor *cursor) {
  Query *query = &cursor->query;
  double left = least_score(cursor);
  for (int i = 0; i < query->count; i++) query->terms[i].essential = !query->terms[i].apart;
  for (;;) {
    Term *least = NULL;
    for (int i = 0; i < query->count; i++) {
      Term *term = &query->terms[i];
      if (term->essential && (least == NULL || term->idf < least->idf)) least = term;
    }
    if (least == NULL) return;
    left -= least->idf * (2.2 * (1 + 1e-9));
    if (!(left > 0.0)) return;
    least->essential = false;
  }
}

/* Offer the rows of the block in their order, and make the block ready for another one. */
static int collect(Cursor *cursor, int64_t start) {
  int rc = SQLITE_OK;
  double least = least_score(cursor);
  for (int i = 0; i < BLOCK_WORDS; i++) {
    for (uint64_t word = cursor->candidate[i]; word && rc == SQLITE_OK; word &= word - 1) {
      int slot = 64 * i + lowest_bit(word);
      double score = cursor->score[slot];
      cursor->score[slot] = 0.0;
      if (score < least) continue;
      rc = offer(cursor, score, start + slot, cursor->measured ? cursor->length[slot] : 0);
      least = least_score(cursor);
    }
    cursor->candidate[i] = 0;
  }
  return rc;
}

static void mark_candidates(Cursor *cursor, const Postings *postings, int64_t start) {
  const uint32_t shift = (uint32_t)((uint64_t)start - (uint64_t)postings->base);
  const uint32_t *offset = cursor->query.store.offset;
  for (size_t i = postings->at; i < postings->end; i++) {
    uint32_t slot = offset[i] - shift;
    cursor->candidate[slot >> 6] |= (uint64_t)1 << (slot & 63);
  }
}

/*
** Score the candidates of a block and offer them. Where lengths are not at hand, only those are measured that would come
** into the portion if they had no length.
*/
static int score_candidates(Cursor *cursor, int64_t start, size_t count) {
  int rc = SQLITE_OK;
  bool tabled = cursor->query.tabled;
  if (!tabled) {
    rc = add_all(cursor, start, true);
    if (rc == SQLITE_OK) count = sift_candidates(cursor);
  }
  cursor->measured = count >= (tabled ? LEAST_TABLED : LEAST_SCANNED);
  if (rc == SQLITE_OK && cursor->measured) {
    memset(cursor->length, 0, BLOCK_ROWS * sizeof *cursor->length);
    rc = tabled ? read_tabled(cursor, start) : read_lengths(cursor, start);
  }
  if (rc == SQLITE_OK) rc = add_all(cursor, start, false);
  return rc == SQLITE_OK ? collect(cursor, start) : rc;
}

static int score_block(Cursor *cursor, int64_t start) {
  Query *query = &cursor->query;
  size_t count = 0;
  int rc = SQLITE_OK;
  choose_essential(cursor);
  for (int i = 0; i < query->count; i++) {
    Term *term = &query->terms[i];
    for (int j = 0; j < term->count; j++) {
      size_t found = mark_block(&query->store, &term->postings[j], start);
      if (!term->essential) continue;
      count += found;
      mark_candidates(cursor, &term->postings[j], start);
    }
  }
  if (count) rc = score_candidates(cursor, start, count);
  for (int i = 0; i < query->count; i++) {
    Term *term = &query->terms[i];
    for (int j = 0; j < term->count; j++) term->postings[j].at = term->postings[j].end;
  }
  return rc;
}

/* Score all rows, as far as their terms are not set apart, and keep the best ones. */
static int score_rows(Cursor *cursor) {
  Query *query = &cursor->query;
  int64_t row;
  int rc = SQLITE_OK;
  cursor->count = cursor->at = 0;
  cursor->near_count = 0;
  memset(cursor->score, 0, BLOCK_ROWS * sizeof *cursor->score);
  memset(cursor->candidate, 0, sizeof cursor->candidate);
  for (int i = 0; i < query->count; i++) {
    for (int j = 0; j < query->terms[i].count; j++) {
      query->terms[i].postings[j].at = query->terms[i].postings[j].first;
    }
  }
  while (rc == SQLITE_OK && (row = least_row(query)) >= 0) {
    rc = score_block(cursor, row / BLOCK_ROWS * BLOCK_ROWS);
  }
  return rc;
}

/* ------------------------------------------------------------------ Once more, with all terms -------------------- */

/* The postings of a hit among those that ascend from `at` on; whether there is one. */
static bool find_offset(const Store *store, size_t *at, size_t past, uint64_t offset) {
  size_t low = *at, high, step = 1;
  while (low + step <= past && store->offset[low + step - 1] < offset) {
    low += step;
    step *= 2;
  }
  high = low + step <= past ? low + step - 1 : past;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (store->offset[middle] < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *at = low;
  return low < past && store->offset[low] == offset;
}

static int add_posting(Cursor *cursor, const Term *term, size_t i, Hit *hit) {
  Query *query = &cursor->query;
  const double k1 = 1.2, idf = term->idf;
  double f;
  uint32_t length;
  int rc = fts5_weigh(&query->weights, &query->store, i, &f);
  if (rc == SQLITE_OK) rc = read_length(cursor, hit->id, hit->length, &length);
  if (rc == SQLITE_OK) hit->score += idf * ((f * (k1 + 1.0)) / (f + part_of(query, length)));
  return rc;
}

/* Add what a term adds to the hits, which ascend by row. */
static int add_read(Cursor *cursor, const Term *term, const Postings *postings) {
  const Store *store = &cursor->query.store;
  size_t at = postings->first;
  int rc = SQLITE_OK;
  for (int i = 0; i < cursor->count && at < postings->past && rc == SQLITE_OK; i++) {
    Hit *hit = &cursor->hits[i];
    if (hit->id < postings->base) continue;
    uint64_t offset = (uint64_t)hit->id - (uint64_t)postings->base;
    if (find_offset(store, &at, postings->past, offset)) rc = add_posting(cursor, term, at, hit);
  }
  return rc;
}

/* The same for a term set apart: leaf by leaf, those that may have a hit. */
static int add_apart(Cursor *cursor, const Term *term, const Postings *postings) {
  Query *query = &cursor->query;
  Store *store = &query->store;
  const size_t count = store->count, size = store->size;
  size_t leaf = postings->first_leaf, at = count;
  int rc = SQLITE_OK;
  bool read = false;
  for (int i = 0; i < cursor->count && rc == SQLITE_OK; i++) {
    Hit *hit = &cursor->hits[i];
    if (hit->id < store->leaf[leaf].row) continue;
    while (leaf + 1 < postings->past_leaf && store->leaf[leaf + 1].row <= hit->id) {
      leaf++;
      read = false;
    }
    if (!read) {
      store->count = at = count;
      store->size = size;
      rc = lexical_read_leaf(module_of(cursor), query, postings, leaf);
      read = true;
    }
    uint64_t offset = (uint64_t)hit->id - (uint64_t)store->leaf[leaf].row;
    if (rc == SQLITE_OK && find_offset(store, &at, store->count, offset)) rc = add_posting(cursor, term, at, hit);
  }
  store->count = count;
  store->size = size;
  return rc;
}

static int ascending(const void *a, const void *b) {
  const Hit *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

/* Score the rows of the portion, and those near it, with all terms in their order. */
static int score_again(Cursor *cursor) {
  Query *query = &cursor->query;
  double least = least_score(cursor);
  int rc = SQLITE_OK;
  for (size_t i = 0; i < cursor->near_count && rc == SQLITE_OK; i++) {
    if (cursor->near[i].score < least) continue;
    if (cursor->count == INT_MAX) return SQLITE_NOMEM;
    rc = append_hit(&cursor->hits, &cursor->room, (size_t)cursor->count, &cursor->near[i]);
    cursor->count += rc == SQLITE_OK;
  }
  if (cursor->count == 0) return rc;
  if (cursor->count > 1) qsort(cursor->hits, (size_t)cursor->count, sizeof *cursor->hits, ascending);
  for (int i = 0; i < cursor->count; i++) cursor->hits[i].score = 0.0;
  for (int i = 0; i < query->count; i++) {
    const Term *term = &query->terms[i];
    for (int j = 0; j < term->count && rc == SQLITE_OK; j++) {
      rc = term->apart ? add_apart(cursor, term, &term->postings[j]) : add_read(cursor, term, &term->postings[j]);
    }
  }
  return rc;
}

/*
** A portion of rough scores begins at the first hit of all. It is right unless rows that have but terms set apart may come
** into it: then all postings are read.
*/
int lexical_fill_portion(Cursor *cursor) {
  const Query *query = &cursor->query;
  int rc = score_rows(cursor);
  if (rc == SQLITE_OK && query->rough) {
    if (query->apart == 0.0 || least_score(cursor) > 0.0) {
      cursor->exhausted = cursor->count < cursor->portion;
      rc = score_again(cursor);
      if (rc == SQLITE_OK) sort_portion(cursor);
      if (cursor->count > cursor->portion) cursor->count = cursor->portion;
      cursor->at = cursor->before;
      return rc;
    }
    rc = lexical_read_apart(cursor);
    if (rc == SQLITE_OK) rc = score_rows(cursor);
  }
  cursor->exhausted = cursor->count < cursor->portion;
  if (rc == SQLITE_OK) sort_portion(cursor);
  return rc;
}
