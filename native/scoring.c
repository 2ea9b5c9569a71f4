/*
** Scoring of the rows that have terms, block by block (see lexical.c).
**
** A block is BLOCK_ROWS rows in turn. For each term in its turn the postings of the block are added to an array of
** sums, so that these are the very ones of bm25(). The heap of the best rows tells which terms a row must have to enter it:
** the postings of the others are looked at only in rows that have one of these. Lengths of rows are in X_length, which
** memdb keeps, or else in X_docsize, a record for each row: then a first pass as if rows had no length, which only
** lifts scores, sorts out whose length is to be looked up at all.
*/
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

/* Keep a row in the portion if it comes after the portions before and there are not enough better ones. */
static inline int offer(Cursor *cursor, double score, int64_t id) {
  if (cursor->count == cursor->portion && score < cursor->hits[0].score) return SQLITE_OK;
  Hit hit = {score, id};
  if (cursor->begun && !is_worse(&hit, &cursor->last)) return SQLITE_OK;
  if (cursor->count == cursor->portion) {
    if (!is_worse(&cursor->hits[0], &hit)) return SQLITE_OK;
    cursor->hits[0] = hit;
    sift_down(cursor->hits, cursor->count, 0);
    return SQLITE_OK;
  }
  if (cursor->count == cursor->room) {
    int room = cursor->room ? 2 * cursor->room : FIRST_HITS;
    Hit *grown = sqlite3_realloc64(cursor->hits, room * sizeof *grown);
    if (grown == NULL) return SQLITE_NOMEM;
    cursor->hits = grown;
    cursor->room = room;
  }
  cursor->hits[cursor->count++] = hit;
  if (cursor->count == cursor->portion) {
    for (int i = cursor->count / 2 - 1; i >= 0; i--) sift_down(cursor->hits, cursor->count, i);
  }
  return SQLITE_OK;
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

double lexical_length_part(const Query *query, uint32_t length) {
  const double k1 = 1.2, b = 0.75;
  return k1 * (1 - b + b * (double)length / query->mean_length);
}

static int decode_length(const Query *query, sqlite3_stmt *statement, int column, uint32_t *length) {
  const uint8_t *data = sqlite3_column_blob(statement, column);
  if (data == NULL) return SQLITE_CORRUPT;
  return fts5_document_size(data, sqlite3_column_bytes(statement, column), query->weights.columns, length);
}

/* The length of one row of a block. */
static int read_length(Cursor *cursor, int64_t start, uint32_t slot, uint32_t *length) {
  sqlite3_stmt *statement;
  if (cursor->measured && cursor->length[slot] && cursor->length[slot] != MANY_TOKENS) {
    *length = cursor->length[slot] - 1u;
    return SQLITE_OK;
  }
  int rc = lexical_ask(module_of(cursor), cursor->query.index, ASK_LENGTH, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, start + slot);
  rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    rc = decode_length(&cursor->query, statement, 0, length);
  } else if (rc == SQLITE_DONE) {
    rc = SQLITE_CORRUPT;
  }
  sqlite3_reset(statement);
  return rc;
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
  const Store *store = &query->store;
  const double k1 = 1.2, idf = term->idf;
  const uint32_t shift = (uint32_t)((uint64_t)start - (uint64_t)postings->base);
  for (size_t i = postings->at; i < postings->end; i++) {
    uint32_t slot = store->offset[i] - shift;
    if (!is_candidate(cursor, slot)) continue;
    double f, part = query->length_part[0];
    int rc = fts5_weigh(&query->weights, store, i, &f);
    if (rc == SQLITE_OK && !bound) {
      uint32_t length;
      rc = read_length(cursor, start, slot, &length);
      part = length < FEW_TOKENS ? query->length_part[length] : lexical_length_part(query, length);
    }
    if (rc != SQLITE_OK) return rc;
    cursor->score[slot] += idf * ((f * (k1 + 1.0)) / (f + part));
  }
  return SQLITE_OK;
}

static int add_all(Cursor *cursor, int64_t start, bool bound) {
  Query *query = &cursor->query;
  int rc = SQLITE_OK;
  for (int i = 0; i < query->count; i++) {
    Term *term = &query->terms[i];
    for (int j = 0; j < term->count && rc == SQLITE_OK; j++) {
      rc = add_postings(cursor, term, &term->postings[j], start, bound);
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
  double least = cursor->count == cursor->portion ? cursor->hits[0].score * (1 - 1e-9) : -1.0;
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
  double left = cursor->count == cursor->portion ? cursor->hits[0].score : 0.0;
  for (int i = 0; i < query->count; i++) query->terms[i].essential = true;
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
  for (int i = 0; i < BLOCK_WORDS; i++) {
    for (uint64_t word = cursor->candidate[i]; word && rc == SQLITE_OK; word &= word - 1) {
      int slot = 64 * i + lowest_bit(word);
      rc = offer(cursor, cursor->score[slot], start + slot);
      cursor->score[slot] = 0.0;
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

int lexical_fill_portion(Cursor *cursor) {
  Query *query = &cursor->query;
  int64_t row;
  int rc = SQLITE_OK;
  cursor->count = cursor->at = 0;
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
  cursor->exhausted = cursor->count < cursor->portion;
  if (rc == SQLITE_OK) sort_portion(cursor);
  return rc;
}
