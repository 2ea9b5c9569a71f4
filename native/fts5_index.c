/*
** Reading the records in which FTS5 keeps an index.
**
** The table X_data of an FTS5 table X has a structure record, which lists segments, and the leaves of the segments. A
** leaf is a header (where its first row begins, where its footer begins), terms with their doclists, and a footer that
** says where the terms begin. A doclist is rows with position lists, ascending; it goes on over the leaves that follow,
** and on each the first row is told in full. A position list is the offsets in column 0, then those of other columns,
** each headed by the byte 1 and the column. The head comment of fts5_index.c in SQLite's source is the reference.
**
** A row of a table with contentless_delete is deleted by a tombstone beside each segment that may have it. In other
** tables an empty position list in a newer segment hides the row in older ones.
**
** Nothing here trusts a record: each offset is checked before it is followed, and every loop moves on in a record, or
** to the next one.
*/
#include "fts5_index.h"

#include <string.h>

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT3
#endif

#define LEAF_HEADER 4
#define MOST_SUMS 16000
#define PLACES 32768 /* a power of two above MOST_SUMS */
#define PADDING 16 /* zeros behind the bytes of a store */
#define MOST_BYTES ((size_t)INT32_MAX - 65536)
#define MOST_ROW ((uint64_t)1 << 62)
#define WIDEST_ROW_SET ((uint64_t)1 << 28)

static int get16(const uint8_t *data) { return data[0] << 8 | data[1]; }

/* A varint of several bytes; returns how many, 0 if it does not end before `size`. */
static int long_varint(const uint8_t *data, int at, int size, uint64_t *value) {
  uint64_t v = 0;
  for (int i = 0; i < 9 && at + i < size; i++) {
    uint8_t b = data[at + i];
    if (i == 8) {
      *value = v << 8 | b;
      return 9;
    }
    v = v << 7 | (b & 0x7f);
    if (b < 0x80) {
      *value = v;
      return i + 1;
    }
  }
  return 0;
}

static inline int varint(const uint8_t *data, int at, int size, uint64_t *value) {
  if (at < size && data[at] < 0x80) {
    *value = data[at];
    return 1;
  }
  return long_varint(data, at, size, value);
}

/* A varint that must be at most `most`; moves *at behind it. */
static int small_varint(const uint8_t *data, int *at, int size, int most, int *value) {
  uint64_t v = 0;
  int n = varint(data, *at, size, &v);
  if (n == 0 || v > (uint64_t)most) return SQLITE_CORRUPT;
  *at += n;
  *value = (int)v;
  return SQLITE_OK;
}

static int segment_decode(const uint8_t *data, int *at, int size, Structure *structure, Segment *segment) {
  uint64_t value;
  int rc = small_varint(data, at, size, 0xffff, &segment->id);
  if (rc == SQLITE_OK) rc = small_varint(data, at, size, INT32_MAX, &segment->first_leaf);
  if (rc == SQLITE_OK) rc = small_varint(data, at, size, INT32_MAX, &segment->last_leaf);
  if (rc == SQLITE_OK && segment->last_leaf < segment->first_leaf) rc = SQLITE_CORRUPT;
  if (structure->version == 1 || rc != SQLITE_OK) return rc;
  /* First and last origin, pages of tombstones, tombstones, rows. */
  for (int i = 0; i < 5; i++) {
    int n = varint(data, *at, size, &value);
    if (n == 0 || value > INT64_MAX || (i == 2 && value > INT32_MAX)) return SQLITE_CORRUPT;
    if (i == 1 && (int64_t)value > structure->origin) structure->origin = (int64_t)value;
    if (i == 2) segment->tombstone_pages = (int)value;
    *at += n;
  }
  return SQLITE_OK;
}

/* The structure record. Levels come youngest first, the segments of each oldest first. */
int fts5_structure(const uint8_t *data, int size, Structure *structure) {
  int at = LEAF_HEADER, levels = 0, segments = 0, rc;
  uint64_t ignored;
  memset(structure, 0, sizeof *structure);
  structure->version = size >= 8 && memcmp(data + 4, "\xff\x00\x00\x01", 4) == 0 ? 2 : 1;
  if (structure->version == 2) at += 4;
  rc = small_varint(data, &at, size, FTS5_MOST_SEGMENTS, &levels);
  if (rc == SQLITE_OK) rc = small_varint(data, &at, size, FTS5_MOST_SEGMENTS, &segments);
  if (rc != SQLITE_OK) return rc;
  int n = varint(data, at, size, &ignored);
  if (n == 0) return SQLITE_CORRUPT;
  at += n;
  structure->segments = sqlite3_malloc64((segments + 1) * sizeof(Segment));
  if (structure->segments == NULL) return SQLITE_NOMEM;
  memset(structure->segments, 0, (segments + 1) * sizeof(Segment));
  for (int level = 0; level < levels && rc == SQLITE_OK; level++) {
    int merging, count = 0;
    rc = small_varint(data, &at, size, FTS5_MOST_SEGMENTS, &merging);
    if (rc == SQLITE_OK) rc = small_varint(data, &at, size, FTS5_MOST_SEGMENTS, &count);
    if (rc == SQLITE_OK && count > segments - structure->count) rc = SQLITE_CORRUPT;
    for (int i = count - 1; i >= 0 && rc == SQLITE_OK; i--) {
      rc = segment_decode(data, &at, size, structure, &structure->segments[structure->count + i]);
    }
    if (rc == SQLITE_OK) structure->count += count;
  }
  if (rc == SQLITE_OK && structure->count != segments) rc = SQLITE_CORRUPT;
  if (rc != SQLITE_OK) {
    sqlite3_free(structure->segments);
    memset(structure, 0, sizeof *structure);
  }
  return rc;
}

/* SQLITE_ROW if there is a next leaf, SQLITE_DONE if there is none. */
int fts5_next_leaf(Leaves *leaves) {
  int rc = leaves->load(leaves);
  if (rc != SQLITE_ROW) return rc;
  if (leaves->data == NULL || leaves->size < LEAF_HEADER) return SQLITE_CORRUPT;
  leaves->body = get16(leaves->data + 2);
  return leaves->body < LEAF_HEADER || leaves->body > leaves->size ? SQLITE_CORRUPT : SQLITE_ROW;
}

/* Where the first term of the leaf begins: a doclist that came from before ends there. */
static int first_term(const Leaves *leaves, int *at) {
  int footer = leaves->body;
  *at = leaves->size + 1;
  if (footer == leaves->size) return SQLITE_OK;
  return small_varint(leaves->data, &footer, leaves->size, leaves->body - 1, at);
}

/*
** Look for a term on the leaf: where its doclist begins, and where that ends unless it goes on on the next leaf.
** Returns SQLITE_DONE if the term is not there. `same` counts the bytes in which `term` and the last one agree.
*/
int fts5_find_term(const Leaves *leaves, const uint8_t *term, int term_size, int *at, int *end) {
  const uint8_t *data = leaves->data;
  int footer = leaves->body, body = leaves->body, start = 0, same = 0;
  while (footer < leaves->size) {
    int step, here, keep = 0, size, i = 0;
    int is_first = start == 0;
    if (small_varint(data, &footer, leaves->size, body, &step)) return SQLITE_CORRUPT;
    start += step;
    if (step == 0 || start < LEAF_HEADER || start >= body) return SQLITE_CORRUPT;
    here = start;
    if (!is_first && small_varint(data, &here, body, FTS5_MOST_TOKEN_BYTES + 1, &keep)) return SQLITE_CORRUPT;
    if (small_varint(data, &here, body, body, &size) || size < 1 || size > body - here) return SQLITE_CORRUPT;
    if (keep < same) return SQLITE_DONE;
    if (keep > same) continue;
    while (i < size && same < term_size && data[here + i] == term[same]) i++, same++;
    if (same == term_size && i < size) return SQLITE_DONE;
    if (same < term_size && i < size && data[here + i] > term[same]) return SQLITE_DONE;
    if (same < term_size || i < size) continue;
    *at = here + size;
    *end = leaves->size + 1;
    if (footer < leaves->size) {
      if (small_varint(data, &footer, leaves->size, body, &step)) return SQLITE_CORRUPT;
      *end = start + step;
      if (*end < *at) return SQLITE_CORRUPT;
    }
    return SQLITE_OK;
  }
  return SQLITE_DONE;
}

int fts5_weights_init(Weights *weights, int columns) {
  memset(weights, 0, sizeof *weights);
  if (columns < 1 || columns > FTS5_MOST_COLUMNS) return FTS5_NOT_READ;
  weights->columns = columns;
  weights->width = columns <= 4 ? 16 : 64 / columns;
  weights->count = 1;
  weights->key = sqlite3_malloc64(MOST_SUMS * sizeof *weights->key);
  weights->sum = sqlite3_malloc64(MOST_SUMS * sizeof *weights->sum);
  weights->place = sqlite3_malloc64(PLACES * sizeof *weights->place);
  if (!weights->key || !weights->sum || !weights->place) return SQLITE_NOMEM;
  memset(weights->place, 0, PLACES * sizeof *weights->place);
  weights->key[0] = 0;
  weights->sum[0] = 0.0;
  for (int i = 0; i < columns; i++) {
    weights->weight[i] = 1.0;
    weights->wanted[i] = 1;
  }
  return SQLITE_OK;
}

static inline uint32_t slot_of(uint64_t key) {
  return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 49) & (PLACES - 1);
}

static uint32_t free_slot(const Weights *weights, uint64_t key) {
  uint32_t slot = slot_of(key);
  while (weights->place[slot]) slot = (slot + 1) & (PLACES - 1);
  return slot;
}

/* To be called when it is set what counts. Numbers 1, 2, … are those of a single occurrence in each column. */
void fts5_weights_ready(Weights *weights) {
  for (int i = 0; i < weights->columns; i++) {
    int number = weights->count++;
    uint64_t key = (uint64_t)1 << (i * weights->width);
    weights->key[number] = key;
    weights->sum[number] = weights->wanted[i] ? weights->weight[i] : 0.0;
    weights->single[i] = FTS5_WEIGHED | (weights->wanted[i] ? (uint32_t)number : 0);
    if (weights->wanted[i]) weights->place[free_slot(weights, key)] = (uint16_t)number;
  }
}

void fts5_weights_clear(Weights *weights) {
  sqlite3_free(weights->key);
  sqlite3_free(weights->sum);
  sqlite3_free(weights->place);
  memset(weights, 0, sizeof *weights);
}

/* A combination that was not met before. Its sum is added up one by one in the order of columns, as bm25() does. */
static int new_combination(Weights *weights, uint64_t key, uint32_t slot, int *number) {
  double sum = 0.0;
  if (weights->count == MOST_SUMS) return FTS5_NOT_READ;
  for (int column = 0; column < weights->columns; column++) {
    uint64_t occurrences = key >> (column * weights->width) & (((uint64_t)1 << weights->width) - 1);
    for (; occurrences; occurrences--) sum += weights->weight[column];
  }
  *number = weights->count++;
  weights->key[*number] = key;
  weights->sum[*number] = sum;
  weights->place[slot] = (uint16_t)*number;
  return SQLITE_OK;
}

static inline int combination(Weights *weights, uint64_t key, int *number) {
  if (key == 0) {
    *number = 0;
    return SQLITE_OK;
  }
  uint32_t slot = slot_of(key);
  for (; weights->place[slot]; slot = (slot + 1) & (PLACES - 1)) {
    *number = weights->place[slot];
    if (weights->key[*number] == key) return SQLITE_OK;
  }
  return new_combination(weights, key, slot, number);
}

/* Which combination of wanted occurrences a position list has. */
static int weigh(Weights *weights, const uint8_t *list, size_t size, int *number) {
  const uint64_t most = ((uint64_t)1 << weights->width) - 1;
  uint64_t key = 0, here = 0;
  int column = 0, last = 0;
  for (size_t i = 0; i < size;) {
    uint8_t b = list[i++];
    if (b != 1) {
      while (b >= 0x80) {
        if (i == size) return SQLITE_CORRUPT;
        b = list[i++];
      }
      here++;
      continue;
    }
    if (here > most) return FTS5_NOT_READ;
    if (weights->wanted[column]) key |= here << (column * weights->width);
    here = 0;
    if (i == size || list[i] >= weights->columns || list[i] <= last) return SQLITE_CORRUPT;
    last = column = list[i++];
  }
  if (here > most) return FTS5_NOT_READ;
  if (weights->wanted[column]) key |= here << (column * weights->width);
  return combination(weights, key, number);
}

/* It is remembered what was found. */
int fts5_number_list(Weights *weights, Store *store, size_t i, uint32_t *number) {
  uint32_t list = store->list[i];
  uint64_t size = 0;
  int found, n = varint(store->bytes, (int)list, (int)store->size, &size);
  size >>= 1;
  if (n == 0 || size > store->size - list - (size_t)n) return SQLITE_CORRUPT;
  int rc = weigh(weights, store->bytes + list + n, size, &found);
  if (rc != SQLITE_OK) return rc;
  *number = (uint32_t)found;
  store->list[i] = FTS5_WEIGHED | *number;
  return SQLITE_OK;
}

/* Weigh postings now, and leave out those in which nothing counts, unless keep_empty. */
int fts5_weigh_all(Weights *weights, int keep_empty, Store *store, Postings *postings) {
  size_t kept = postings->first;
  int rc = SQLITE_OK;
  for (size_t i = postings->first; i < postings->past && rc == SQLITE_OK; i++) {
    uint32_t number = 0;
    rc = fts5_number(weights, store, i, &number);
    store->offset[kept] = store->offset[i];
    store->list[kept] = FTS5_WEIGHED | number;
    kept += number || keep_empty;
  }
  store->count = postings->past = kept;
  return rc;
}

void fts5_store_clear(Store *store) {
  sqlite3_free(store->offset);
  sqlite3_free(store->list);
  sqlite3_free(store->bytes);
  sqlite3_free(store->leaf);
  memset(store, 0, sizeof *store);
}

static int reserve(Store *store, size_t more) {
  if (store->count + more <= store->room) return SQLITE_OK;
  size_t room = 2 * (store->count + more);
  uint32_t *offset = sqlite3_realloc64(store->offset, room * sizeof *offset);
  if (offset) store->offset = offset;
  uint32_t *list = sqlite3_realloc64(store->list, room * sizeof *list);
  if (list) store->list = list;
  if (offset == NULL || list == NULL) return SQLITE_NOMEM;
  store->room = room;
  return SQLITE_OK;
}

/*
** Append the leaf from `from` to its footer, so that position lists are in one piece, and make room for its rows: each
** takes two bytes at least.
*/
static int take_leaf(const Leaves *leaves, int from, Store *store) {
  size_t more = (size_t)(leaves->body - from);
  if (store->size + more > MOST_BYTES) return FTS5_NOT_READ;
  if (store->size + more + PADDING > store->bytes_room) {
    size_t room = 2 * (store->size + more + PADDING);
    uint8_t *grown = sqlite3_realloc64(store->bytes, room);
    if (grown == NULL) return SQLITE_NOMEM;
    store->bytes = grown;
    store->bytes_room = room;
  }
  memcpy(store->bytes + store->size, leaves->data + from, more);
  store->size += more;
  memset(store->bytes + store->size, 0, PADDING);
  return reserve(store, more / 2 + 2);
}

/*
** Reading a doclist: the leaf at hand lies in store->bytes, its end at store->size; `shift` leads from an offset on the
** leaf there. The position list of the row base + offset begins at `at`, the doclist ends before `stop`.
*/
typedef struct Walk {
  Leaves *leaves;
  Store *store;
  const RowSet *deleted;
  int columns; /* rows count whose first column is below; 0: all rows */
  int every;   /* all columns are below */
  int64_t base;
  uint64_t offset;
  size_t at, stop, shift;
  size_t bytes; /* in the store before the doclist */
} Walk;

/* The next leaf: SQLITE_ROW, SQLITE_DONE or an error. */
static int next_leaf(Walk *walk) {
  int end;
  int rc = fts5_next_leaf(walk->leaves);
  if (rc != SQLITE_ROW) return rc;
  rc = take_leaf(walk->leaves, LEAF_HEADER, walk->store);
  if (rc == SQLITE_OK) rc = first_term(walk->leaves, &end);
  if (rc != SQLITE_OK) return rc;
  walk->shift = walk->store->size - (size_t)walk->leaves->body;
  walk->stop = (size_t)end + walk->shift;
  return SQLITE_ROW;
}

/*
** The doclist goes on on a leaf that follows, or on the one where its last position list ended (`here`): find its first
** row there. Returns SQLITE_DONE if the doclist has ended.
*/
static int next_row(Walk *walk, int here) {
  const Leaves *leaves = walk->leaves;
  for (;; here = 0) {
    int rc = here ? SQLITE_ROW : next_leaf(walk);
    if (rc != SQLITE_ROW) return rc;
    int first = get16(leaves->data);
    if (first) {
      uint64_t row;
      int n = first < LEAF_HEADER ? 0 : varint(leaves->data, first, leaves->body, &row);
      if (n == 0) return SQLITE_CORRUPT;
      if (row > MOST_ROW) return FTS5_NOT_READ;
      if (row <= (uint64_t)walk->base + walk->offset) return SQLITE_CORRUPT;
      walk->offset = row - (uint64_t)walk->base;
      walk->at = (size_t)(first + n) + walk->shift;
      return walk->offset > UINT32_MAX ? FTS5_NOT_READ : SQLITE_ROW;
    }
    if (leaves->size > leaves->body) return SQLITE_DONE;
  }
}

/* Add the row whose position list, of `size` bytes, stands at `at`, behind its size at `list`. */
static inline size_t add_row(const Walk *walk, uint64_t offset, size_t list, size_t at, size_t size, size_t count) {
  const Store *store = walk->store;
  const uint8_t *first = store->bytes + at;
  if (walk->deleted && fts5_has(walk->deleted, walk->base + (int64_t)offset)) return count;
  store->offset[count] = (uint32_t)offset;
  store->list[count] = (uint32_t)list;
  return count + (walk->columns == 0 || (size > 0 && (*first != 1 || first[1] < walk->columns)));
}

/*
** Read rows of the leaf at hand while all is as it mostly is: sizes of one byte, steps of one or two, far from the end.
** It stops at a row that is yet to be read. columns: as in Walk, or -1 for all of them.
*/
static inline void quick_rows(Walk *walk, size_t end, const int columns, const RowSet *deleted) {
  const uint8_t *bytes = walk->store->bytes, *p = bytes + walk->at, *stop = end > 160 ? bytes + end - 160 : bytes;
  uint32_t *offsets = walk->store->offset, *lists = walk->store->list;
  uint64_t offset = walk->offset;
  size_t count = walk->store->count;
  while (p < stop) {
    uint32_t size = p[0];
    const uint8_t *next = p + 1 + (size >> 1);
    uint32_t step = *next++;
    if (step >= 0x80) {
      if (*next >= 0x80) break;
      step = (step & 0x7f) << 7 | *next++;
    }
    if (size >= 0x80 || step == 0 || offset + step > UINT32_MAX) break;
    offsets[count] = (uint32_t)offset;
    lists[count] = (uint32_t)(p - bytes);
    size_t kept = size > 1;
    if (columns >= 0) kept = (columns == 0) | (kept & ((size_t)(p[1] != 1) | (size_t)(p[2] < columns)));
    if (deleted && fts5_has(deleted, walk->base + (int64_t)offset)) kept = 0;
    count += kept;
    offset += step;
    p = next;
  }
  walk->offset = offset;
  walk->at = (size_t)(p - bytes);
  walk->store->count = count;
}

/*
** Read rows as far as they lie on the leaf at hand. SQLITE_ROW: the doclist may go on on the next one. *spilled: the
** last position list ended on the leaf that is at hand now, and what follows it is found from that leaf's header.
*/
static int rows_of_leaf(Walk *walk, int *spilled) {
  Store *store = walk->store;
  const uint8_t *bytes = store->bytes;
  const size_t limit = store->size, stop = walk->stop < limit ? walk->stop : limit;
  uint64_t value;
  size_t at, size, list;
  for (;;) {
    if (walk->every && walk->deleted == NULL) {
      quick_rows(walk, stop, -1, NULL);
    } else {
      quick_rows(walk, stop, walk->every ? -1 : walk->columns, walk->deleted);
    }
    list = at = walk->at;
    int n = varint(bytes, (int)at, (int)limit, &value);
    if (n == 0 || value > MOST_BYTES) return SQLITE_CORRUPT;
    at += n;
    size = value >> 1;
    *spilled = size > limit - at;
    if (*spilled) break;
    store->count = add_row(walk, walk->offset, list, at, size, store->count);
    at += size;
    if (at >= stop) return at >= limit ? SQLITE_ROW : SQLITE_OK;
    n = varint(bytes, (int)at, (int)limit, &value);
    if (n == 0 || value == 0) return SQLITE_CORRUPT;
    if (value > UINT32_MAX - walk->offset) return FTS5_NOT_READ;
    walk->at = at + (size_t)n;
    walk->offset += value;
  }
  while (size > store->size - at) {
    int rc = next_leaf(walk);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
  }
  store->count = add_row(walk, walk->offset, list, at, size, store->count);
  return SQLITE_ROW;
}

int fts5_append_leaves(Store *store, const Leaf *leaf, size_t count) {
  if (store->leaves + count > store->leaves_room) {
    size_t room = 2 * (store->leaves + count) + 64;
    Leaf *grown = sqlite3_realloc64(store->leaf, room * sizeof *grown);
    if (grown == NULL) return SQLITE_NOMEM;
    store->leaf = grown;
    store->leaves_room = room;
  }
  memcpy(store->leaf + store->leaves, leaf, count * sizeof *leaf);
  store->leaves += count;
  return SQLITE_OK;
}

/* Put down that the row at hand is the first one on its leaf. */
static int note_leaf(const Walk *walk) {
  Leaf leaf = {walk->base + (int64_t)walk->offset, walk->leaves->number};
  return fts5_append_leaves(walk->store, &leaf, 1);
}

/* Begin at a row that is told in full, at `at` of the leaf at hand. */
static int begin_rows(Walk *walk, int at, int end) {
  const Leaves *leaves = walk->leaves;
  uint64_t row = 0;
  int n = at < LEAF_HEADER ? 0 : varint(leaves->data, at, leaves->body, &row);
  if (n == 0) return SQLITE_CORRUPT;
  if (row > MOST_ROW) return FTS5_NOT_READ;
  walk->base = (int64_t)row;
  walk->shift = walk->store->size - (size_t)leaves->body;
  walk->at = (size_t)(at + n) + walk->shift;
  walk->stop = (size_t)end + walk->shift;
  return SQLITE_OK;
}

/* Read the doclist from the row at hand on. As soon as there are `enough` rows, no more than its leaves are noted. */
static int walk_doclist(Walk *walk, size_t enough) {
  Store *store = walk->store;
  const size_t first = store->count;
  int rc = SQLITE_ROW;
  while (rc == SQLITE_ROW) {
    int spilled = 0;
    rc = note_leaf(walk);
    if (rc != SQLITE_OK) return rc;
    if (store->count - first < enough) {
      rc = rows_of_leaf(walk, &spilled);
    } else {
      if (walk->stop < store->size) return SQLITE_OK;
      store->size = walk->bytes;
      rc = SQLITE_ROW;
    }
    if (rc == SQLITE_ROW) rc = next_row(walk, spilled);
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/*
** Read the doclist that begins at `at` of the leaf, but for rows in `deleted` (may be NULL) and, if `columns` is not 0,
** those with no occurrence in the first `columns` columns. If there are `enough` rows or more, those that are read are
** not all of them, and have no position lists: what is in the store is for nobody.
*/
int fts5_postings(Leaves *leaves, int at, int end, const Weights *weights, int columns, const RowSet *deleted,
                  size_t enough, Store *store, Postings *postings) {
  Walk walk = {leaves, store, deleted, columns, columns == weights->columns, 0, 0, 0, 0, 0, store->size};
  int rc = take_leaf(leaves, at < leaves->body ? at : leaves->body, store);
  while (rc == SQLITE_OK && at >= leaves->body) {
    rc = next_leaf(&walk);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
    rc = first_term(leaves, &end);
    at = LEAF_HEADER;
  }
  if (rc == SQLITE_OK) rc = begin_rows(&walk, at, end);
  if (rc != SQLITE_OK) return rc;
  postings->base = walk.base;
  postings->first = store->count;
  postings->doclist = at;
  postings->doclist_end = end;
  postings->first_leaf = store->leaves;
  rc = walk_doclist(&walk, enough);
  postings->past = store->count;
  postings->past_leaf = store->leaves;
  return rc;
}

/*
** Append the rows that begin on a leaf of the postings, the first one that `leaves` gives, as fts5_postings would; their
** base is the row of that leaf.
*/
int fts5_leaf_postings(Leaves *leaves, const Weights *weights, int columns, const RowSet *deleted, Store *store,
                       const Postings *postings, size_t leaf) {
  Walk walk = {leaves, store, deleted, columns, columns == weights->columns, 0, 0, 0, 0, 0, store->size};
  int at = postings->doclist, end = postings->doclist_end, spilled;
  int rc = fts5_next_leaf(leaves);
  if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
  rc = SQLITE_OK;
  if (leaf > postings->first_leaf) {
    at = get16(leaves->data);
    rc = first_term(leaves, &end);
  }
  if (at < LEAF_HEADER || at >= leaves->body) return SQLITE_CORRUPT;
  if (rc == SQLITE_OK) rc = take_leaf(leaves, at, store);
  if (rc == SQLITE_OK) rc = begin_rows(&walk, at, end);
  if (rc == SQLITE_OK && walk.base != store->leaf[leaf].row) rc = SQLITE_CORRUPT;
  if (rc == SQLITE_OK) rc = rows_of_leaf(&walk, &spilled);
  return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* Append the rows of a tombstone page: slots of 4 or 8 bytes, empty ones zero; the first page says if row 0 is one. */
int fts5_tombstones(const uint8_t *data, int size, int first, int64_t **rows, size_t *count, size_t *room) {
  if (data == NULL || size < 8) return SQLITE_CORRUPT;
  int width = data[0] == 4 ? 4 : 8;
  size_t most = *count + (size - 8) / width + 1;
  if (most > *room) {
    int64_t *grown = sqlite3_realloc64(*rows, 2 * most * sizeof **rows);
    if (grown == NULL) return SQLITE_NOMEM;
    *rows = grown;
    *room = 2 * most;
  }
  if (first && data[1]) (*rows)[(*count)++] = 0;
  for (int at = 8; at + width <= size; at += width) {
    uint64_t row = 0;
    for (int i = 0; i < width; i++) row = row << 8 | data[at + i];
    if (row) (*rows)[(*count)++] = (int64_t)row;
  }
  return SQLITE_OK;
}

int fts5_row_set(const int64_t *rows, size_t count, RowSet *set) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  memset(set, 0, sizeof *set);
  if (count == 0) return SQLITE_OK;
  for (size_t i = 0; i < count; i++) {
    if (rows[i] < least) least = rows[i];
    if (rows[i] > most) most = rows[i];
  }
  uint64_t span = (uint64_t)most - (uint64_t)least;
  if (span >= WIDEST_ROW_SET) return FTS5_NOT_READ;
  set->bits = sqlite3_malloc64(span / 8 + 1);
  if (set->bits == NULL) return SQLITE_NOMEM;
  memset(set->bits, 0, span / 8 + 1);
  set->base = least;
  set->span = span + 1;
  for (size_t i = 0; i < count; i++) {
    uint64_t at = (uint64_t)rows[i] - (uint64_t)least;
    set->bits[at >> 3] |= (uint8_t)(1 << (at & 7));
  }
  return SQLITE_OK;
}

/*
** Merge the weighed postings of an older segment into those of newer ones, which hide it where both have a row. What is
** merged stands at the end of the store.
*/
int fts5_newer_first(Store *store, Postings *newer, const Postings *older) {
  size_t i = newer->first, j = older->first, first = store->count;
  int64_t base = newer->base < older->base ? newer->base : older->base;
  int rc = reserve(store, newer->past - newer->first + older->past - older->first);
  if (rc != SQLITE_OK) return rc;
  while (i < newer->past || j < older->past) {
    uint64_t a = i < newer->past ? (uint64_t)newer->base + store->offset[i] : UINT64_MAX;
    uint64_t b = j < older->past ? (uint64_t)older->base + store->offset[j] : UINT64_MAX;
    uint64_t offset = (a < b ? a : b) - (uint64_t)base;
    if (offset > UINT32_MAX) return FTS5_NOT_READ;
    store->offset[store->count] = (uint32_t)offset;
    store->list[store->count++] = store->list[a <= b ? i : j];
    i += a <= b;
    j += b <= a;
  }
  newer->base = base;
  newer->first = first;
  newer->past = store->count;
  return SQLITE_OK;
}

/* A record of X_docsize: the tokens of each column. */
int fts5_document_size(const uint8_t *data, int size, int columns, uint32_t *tokens) {
  int at = 0;
  uint64_t sum = 0;
  for (int i = 0; i < columns; i++) {
    int one;
    if (small_varint(data, &at, size, INT32_MAX, &one)) return SQLITE_CORRUPT;
    sum += (uint64_t)one;
  }
  if (at != size || sum > INT32_MAX) return SQLITE_CORRUPT;
  *tokens = (uint32_t)sum;
  return SQLITE_OK;
}
