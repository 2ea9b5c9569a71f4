/*
** Fuzzing of what reads the records of FTS5 (fts5_index.c).
**
** The first byte of an input says what the rest is: a structure record, a record of X_docsize, a page of tombstones, or
** leaves of a segment, each after two bytes with its size, behind the term that is looked for. Whatever they hold, no
** byte outside them may be read, and the reading must end.
*/
#include <stdlib.h>
#include <string.h>

#include "fts5_index.h"

typedef struct Pages {
  Leaves leaves;
  const uint8_t *data;
  size_t size;
  uint8_t *page; /* a copy of its exact size, so that reading behind it is seen */
} Pages;

static int load_page(Leaves *leaves) {
  Pages *pages = (Pages *)leaves;
  if (pages->size < 2) return SQLITE_DONE;
  size_t size = (size_t)pages->data[0] << 8 | pages->data[1];
  leaves->number++;
  pages->data += 2;
  pages->size -= 2;
  if (size > pages->size) size = pages->size;
  free(pages->page);
  pages->page = malloc(size ? size : 1);
  if (pages->page == NULL) return SQLITE_NOMEM;
  memcpy(pages->page, pages->data, size);
  leaves->data = pages->page;
  leaves->size = (int)size;
  pages->data += size;
  pages->size -= size;
  return SQLITE_ROW;
}

/* Postings are ascending, and each can be weighed, or is said to be damaged. */
static void check(Weights *weights, Store *store, const Postings *postings) {
  for (size_t i = postings->first; i < postings->past; i++) {
    double sum;
    if (i > postings->first && store->offset[i] <= store->offset[i - 1]) abort();
    if (fts5_weigh(weights, store, i, &sum) == SQLITE_OK && !(sum >= 0.0)) abort();
  }
}

/* Each leaf that was noted is read by itself: what it has must be what was read of it, or that it is damaged. */
static void read_again(Pages *pages, const uint8_t *data, size_t size, Weights *weights, int columns, Store *store,
                       const Postings *postings) {
  const size_t count = store->count, bytes = store->size;
  for (size_t leaf = postings->first_leaf; leaf < postings->past_leaf; leaf++) {
    Postings part = {.base = store->leaf[leaf].row, .first = count};
    pages->data = data;
    pages->size = size;
    pages->leaves.number = 0;
    while (pages->leaves.number + 1 < store->leaf[leaf].number) {
      if (load_page(&pages->leaves) != SQLITE_ROW) abort();
    }
    if (fts5_leaf_postings(&pages->leaves, weights, columns, NULL, store, postings, leaf) == SQLITE_OK) {
      part.past = store->count;
      check(weights, store, &part);
    }
    store->count = count;
    store->size = bytes;
  }
}

static void read_leaves(const uint8_t *data, size_t size) {
  static const int64_t rows[] = {1, 3, 64, 100};
  Pages pages = {.leaves = {.load = load_page}};
  Weights weights;
  Store store = {0};
  Postings postings = {0}, merged = {0};
  RowSet deleted;
  int at, end;
  if (size < 2 || (size_t)(data[0] & 15) + 2 > size) return;
  int term_size = data[0] & 15, columns = data[1] & 7, eager = data[1] >> 7;
  size_t enough = data[1] & 8 ? data[1] >> 4 & 7 : SIZE_MAX;
  pages.data = data + 2 + term_size;
  pages.size = size - 2 - (size_t)term_size;
  if (fts5_weights_init(&weights, 5) != SQLITE_OK || fts5_row_set(rows, 4, &deleted) != SQLITE_OK) abort();
  weights.wanted[1] = 0;
  fts5_weights_ready(&weights);
  if (fts5_next_leaf(&pages.leaves) == SQLITE_ROW &&
      fts5_find_term(&pages.leaves, data + 2, term_size, &at, &end) == SQLITE_OK &&
      fts5_postings(&pages.leaves, at, end, &weights, columns, eager ? &deleted : NULL, enough, &store, &postings) == SQLITE_OK) {
    read_again(&pages, data + 2 + term_size, size - 2 - (size_t)term_size, &weights, columns, &store, &postings);
    check(&weights, &store, &postings);
    merged = postings;
    if (fts5_weigh_all(&weights, eager, &store, &postings) == SQLITE_OK) {
      merged.past = merged.first + (postings.past - postings.first) / 2;
      if (fts5_newer_first(&store, &merged, &postings) == SQLITE_OK) check(&weights, &store, &merged);
    }
  }
  fts5_store_clear(&store);
  fts5_weights_clear(&weights);
  sqlite3_free(deleted.bits);
  free(pages.page);
}

static void read_tombstones(const uint8_t *data, size_t size) {
  int64_t *rows = NULL;
  size_t count = 0, room = 0;
  RowSet set = {0};
  if (fts5_tombstones(data, (int)size, 1, &rows, &count, &room) == SQLITE_OK &&
      fts5_row_set(rows, count, &set) == SQLITE_OK) {
    for (size_t i = 0; i < count; i++) {
      if (!fts5_has(&set, rows[i])) abort();
    }
  }
  sqlite3_free(set.bits);
  sqlite3_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 1 << 20) return 0;
  uint8_t *record = malloc(size);
  if (record == NULL) return 0;
  memcpy(record, data + 1, size - 1);
  Structure structure;
  uint32_t tokens;
  switch (data[0] & 3) {
    case 0:
      if (fts5_structure(record, (int)size - 1, &structure) == SQLITE_OK) sqlite3_free(structure.segments);
      break;
    case 1: fts5_document_size(record, (int)size - 1, 5, &tokens); break;
    case 2: read_tombstones(record, size - 1); break;
    default: read_leaves(record, size - 1);
  }
  free(record);
  return 0;
}
