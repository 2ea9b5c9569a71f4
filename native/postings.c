/*
** Reading the postings of terms from the shadow tables of FTS5 (see lexical.c).
**
** A term that is in half of the rows or more has the least weight that bm25() gives, 1e-6: it can but break ties. Its
** doclist is the longest, and is not read: it is known to be such a term when half of the rows are counted, and then the
** leaves are only noted. Of the few rows that are among the best, its postings are read from the leaves they are on.
** A connection remembers such terms with their leaves as long as the file stays as it is.
*/
#include <limits.h>
#include <math.h>
#include <string.h>

#include "lexical.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT3
#endif

#define MOST_KNOWN (1 << 17) /* leaves that are remembered */

#define LEAF_ROW(segment, leaf) (((int64_t)(segment) << 37) + (leaf))
#define TOMBSTONE_ROW(segment, page) LEAF_ROW((int64_t)(segment) + 65536, page)

typedef struct TableLeaves {
  Leaves leaves;
  sqlite3_stmt *statement;
  int64_t row, last;
} TableLeaves;

static int load_leaf(Leaves *leaves) {
  TableLeaves *from = (TableLeaves *)leaves;
  if (from->row > from->last) return SQLITE_DONE;
  leaves->number = (int)(from->row & INT_MAX);
  int rc = sqlite3_step(from->statement);
  if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
  if (sqlite3_column_int64(from->statement, 0) != from->row++) return SQLITE_CORRUPT;
  if (sqlite3_column_type(from->statement, 1) != SQLITE_BLOB) return SQLITE_CORRUPT;
  leaves->data = sqlite3_column_blob(from->statement, 1);
  leaves->size = sqlite3_column_bytes(from->statement, 1);
  return SQLITE_ROW;
}

void lexical_forget_known(Index *index) {
  while (index->known) {
    Known *known = index->known;
    index->known = known->next;
    sqlite3_free(known->token);
    sqlite3_free(known->postings);
    sqlite3_free(known->leaf);
    sqlite3_free(known);
  }
  index->known_leaves = 0;
}

static int ask_number(Module *module, Query *query, int question, sqlite3_int64 *number) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module, query->index, question, &statement);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) *number = sqlite3_column_int64(statement, 0);
  return sqlite3_reset(statement);
}

/*
** Forget what is known if the file has changed since. While this connection writes nothing is used or learnt: a
** rollback would leave no sign.
*/
static int check_known(Module *module, Query *query, const uint8_t *structure, int size) {
  State *state = &query->index->state, now = {0, 0, sqlite3_total_changes(module->db), NULL, size};
  query->settled = sqlite3_txn_state(module->db, "main") != SQLITE_TXN_WRITE;
  if (!query->settled) return SQLITE_OK;
  int rc = ask_number(module, query, ASK_CHANGES, &now.others);
  if (rc == SQLITE_OK) rc = ask_number(module, query, ASK_SCHEMA_CHANGES, &now.schema);
  if (rc != SQLITE_OK) return rc;
  if (state->structure && now.others == state->others && now.schema == state->schema && now.own == state->own &&
      size == state->size && memcmp(structure, state->structure, (size_t)size) == 0) {
    return SQLITE_OK;
  }
  lexical_forget_known(query->index);
  sqlite3_free(state->structure);
  memset(state, 0, sizeof *state);
  now.structure = sqlite3_malloc64((size_t)size + 1);
  if (now.structure == NULL) return SQLITE_NOMEM;
  memcpy(now.structure, structure, (size_t)size);
  *state = now;
  return SQLITE_OK;
}

int lexical_read_structure(Module *module, Query *query) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module, query->index, ASK_STRUCTURE, &statement);
  if (rc != SQLITE_OK) return rc;
  rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    const uint8_t *data = sqlite3_column_blob(statement, 0);
    int size = sqlite3_column_bytes(statement, 0);
    rc = data ? fts5_structure(data, size, &query->structure) : SQLITE_CORRUPT;
    if (rc == SQLITE_OK) rc = check_known(module, query, data, size);
  } else if (rc == SQLITE_DONE) {
    rc = SQLITE_CORRUPT;
  }
  sqlite3_reset(statement);
  if (rc != SQLITE_OK) return rc;
  query->deleted = sqlite3_malloc64((query->structure.count + 1) * sizeof *query->deleted);
  if (query->deleted == NULL) return SQLITE_NOMEM;
  memset(query->deleted, 0, (query->structure.count + 1) * sizeof *query->deleted);
  return SQLITE_OK;
}

/* The rows of a segment that tombstones delete. */
static int read_tombstones(Module *module, Query *query, const Segment *segment, RowSet *set) {
  sqlite3_stmt *statement;
  int64_t *rows = NULL;
  size_t count = 0, room = 0;
  int page = 0;
  int rc = lexical_ask(module, query->index, ASK_TOMBSTONES, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int64(statement, 1, TOMBSTONE_ROW(segment->id, 0));
  sqlite3_bind_int64(statement, 2, TOMBSTONE_ROW(segment->id, segment->tombstone_pages - 1));
  while (rc == SQLITE_OK && page < segment->tombstone_pages) {
    rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW || sqlite3_column_int64(statement, 0) != TOMBSTONE_ROW(segment->id, page)) {
      if (rc == SQLITE_ROW || rc == SQLITE_DONE) rc = SQLITE_CORRUPT;
      break;
    }
    const uint8_t *data = sqlite3_column_blob(statement, 1);
    rc = fts5_tombstones(data, sqlite3_column_bytes(statement, 1), page++ == 0, &rows, &count, &room);
  }
  sqlite3_reset(statement);
  if (rc == SQLITE_OK) rc = fts5_row_set(rows, count, set);
  sqlite3_free(rows);
  return rc;
}

/* The leaf of a segment that has the term, if any has. */
static int find_leaf(Module *module, Query *query, const Segment *segment, const Term *term, int *leaf) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module, query->index, ASK_PAGE, &statement);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_int(statement, 1, segment->id);
  sqlite3_bind_blob(statement, 2, term->token, term->token_size, SQLITE_STATIC);
  rc = sqlite3_step(statement);
  int64_t page = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) >> 1 : 1;
  rc = sqlite3_reset(statement);
  sqlite3_bind_null(statement, 2);
  if (page < segment->first_leaf) page = segment->first_leaf;
  if (page < 1 || page > INT_MAX) return SQLITE_CORRUPT;
  *leaf = (int)page;
  return rc;
}

/* The leaves of a segment from one on; the statement is to be reset. */
static int open_leaves(Module *module, Query *query, const Segment *segment, int leaf, TableLeaves *from) {
  memset(from, 0, sizeof *from);
  int rc = lexical_ask(module, query->index, ASK_LEAVES, &from->statement);
  if (rc != SQLITE_OK) return rc;
  from->leaves.load = load_leaf;
  from->row = LEAF_ROW(segment->id, leaf);
  from->last = LEAF_ROW(segment->id, segment->last_leaf);
  sqlite3_bind_int64(from->statement, 1, from->row);
  sqlite3_bind_int64(from->statement, 2, from->last);
  return SQLITE_OK;
}

static int find_deleted(Module *module, Query *query, int number, const RowSet **deleted) {
  RowSet *set = &query->deleted[number];
  const Segment *segment = &query->structure.segments[number];
  int rc = SQLITE_OK;
  if (segment->tombstone_pages && set->bits == NULL) rc = read_tombstones(module, query, segment, set);
  *deleted = set->bits ? set : NULL;
  return rc;
}

static int read_segment(Module *module, Query *query, int number, const Term *term, size_t enough,
                        Postings *postings) {
  const Segment *segment = &query->structure.segments[number];
  const RowSet *deleted = NULL;
  TableLeaves from;
  int leaf, at, end;
  if (segment->first_leaf == 0) return SQLITE_OK; /* a merge has used it up */
  int rc = find_leaf(module, query, segment, term, &leaf);
  if (rc != SQLITE_OK || leaf > segment->last_leaf) return rc;
  rc = open_leaves(module, query, segment, leaf, &from);
  if (rc != SQLITE_OK) return rc;
  postings->segment = number;
  rc = fts5_next_leaf(&from.leaves);
  if (rc == SQLITE_ROW) rc = fts5_find_term(&from.leaves, term->token, term->token_size, &at, &end);
  if (rc == SQLITE_OK) rc = find_deleted(module, query, number, &deleted);
  if (rc == SQLITE_OK) {
    int merged = query->structure.version == 1;
    size_t size = query->store.size;
    int columns = merged || query->prefix < 0 ? 0 : query->prefix;
    rc = fts5_postings(&from.leaves, at, end, &query->weights, columns, deleted, enough, &query->store, postings);
    if (rc == SQLITE_OK && (merged || query->prefix < 0)) {
      rc = fts5_weigh_all(&query->weights, merged, &query->store, postings);
      query->store.size = size;
    }
  }
  sqlite3_reset(from.statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Append what begins on one leaf of postings to the store. */
int lexical_read_leaf(Module *module, Query *query, const Postings *postings, size_t leaf) {
  const Segment *segment = &query->structure.segments[postings->segment];
  const RowSet *deleted = NULL;
  TableLeaves from;
  int rc = find_deleted(module, query, postings->segment, &deleted);
  if (rc == SQLITE_OK) rc = open_leaves(module, query, segment, query->store.leaf[leaf].number, &from);
  if (rc != SQLITE_OK) return rc;
  rc = fts5_leaf_postings(&from.leaves, &query->weights, query->prefix, deleted, &query->store, postings, leaf);
  sqlite3_reset(from.statement);
  return rc;
}

/* Leave out the rows in which nothing counts. */
static void drop_empty(Store *store, Postings *postings) {
  size_t kept = postings->first;
  for (size_t i = postings->first; i < postings->past; i++) {
    store->offset[kept] = store->offset[i];
    store->list[kept] = store->list[i];
    kept += store->list[i] != FTS5_WEIGHED;
  }
  postings->past = kept;
}

/* The term is in half of the rows: keep no more than which leaves its postings are on. */
static void set_apart(Query *query, Term *term, size_t count, size_t size) {
  for (int i = 0; i < term->count; i++) {
    term->postings[i].first = term->postings[i].past = term->postings[i].at = term->postings[i].end = 0;
  }
  query->store.count = count;
  query->store.size = size;
  term->apart = true;
  term->idf = 1e-6;
  query->apart += term->idf * (2.2 * (1 + 1e-9));
}

/* What is known of a term in the columns wanted. */
static Known **find_known(Query *query, const Term *term) {
  Known **link = &query->index->known;
  for (; *link; link = &(*link)->next) {
    const Known *known = *link;
    if (known->prefix == query->prefix && known->token_size == term->token_size &&
        memcmp(known->token, term->token, (size_t)term->token_size) == 0) {
      break;
    }
  }
  return link;
}

/* Remember a term that is set apart. Where there is no memory for it, it is not. */
static void remember(Query *query, const Term *term, size_t first_leaf) {
  Index *index = query->index;
  const size_t leaves = query->store.leaves - first_leaf;
  if (!query->settled || *find_known(query, term) || index->known_leaves + leaves > MOST_KNOWN) return;
  Known *known = sqlite3_malloc64(sizeof *known);
  if (known == NULL) return;
  memset(known, 0, sizeof *known);
  known->next = index->known;
  index->known = known;
  known->prefix = query->prefix;
  known->postings = sqlite3_malloc64(((size_t)term->count + 1) * sizeof *known->postings);
  known->leaf = sqlite3_malloc64((leaves + 1) * sizeof *known->leaf);
  known->token = sqlite3_malloc64((size_t)term->token_size + 1);
  if (known->postings == NULL || known->leaf == NULL || known->token == NULL) return; /* it fits no term */
  memcpy(known->postings, term->postings, (size_t)term->count * sizeof *known->postings);
  memcpy(known->leaf, query->store.leaf + first_leaf, leaves * sizeof *known->leaf);
  memcpy(known->token, term->token, (size_t)term->token_size);
  known->token_size = term->token_size;
  known->count = term->count;
  known->leaves = leaves;
  index->known_leaves += leaves;
  for (int i = 0; i < known->count; i++) {
    known->postings[i].first_leaf -= first_leaf;
    known->postings[i].past_leaf -= first_leaf;
  }
}

/* Set a term apart by what is known of it. */
static int recall_term(Query *query, Term *term, const Known *known) {
  Store *store = &query->store;
  const size_t first_leaf = store->leaves;
  int rc = fts5_append_leaves(store, known->leaf, known->leaves);
  if (rc != SQLITE_OK) return rc;
  term->count = known->count;
  memcpy(term->postings, known->postings, (size_t)known->count * sizeof *known->postings);
  for (int i = 0; i < term->count; i++) {
    term->postings[i].first_leaf += first_leaf;
    term->postings[i].past_leaf += first_leaf;
  }
  set_apart(query, term, store->count, store->size);
  return SQLITE_OK;
}

/* The postings of a term, but of one that is in half of the rows only if `may_be_apart` does not hold. */
int lexical_read_term(Module *module, Query *query, Term *term, bool may_be_apart) {
  int rc = SQLITE_OK;
  const size_t count = query->store.count, size = query->store.size, first_leaf = query->store.leaves;
  /* As in fts5_aux.c: half of the rows is where the logarithm becomes 0. */
  size_t half = (size_t)(query->rows / 2 + query->rows % 2), hits = 0;
  if (!may_be_apart || query->structure.version == 1 || query->prefix < 0) half = SIZE_MAX;
  term->count = 0;
  term->apart = false;
  if (!term->postings) term->postings = sqlite3_malloc64((query->structure.count + 1) * sizeof *term->postings);
  if (term->postings == NULL) return SQLITE_NOMEM;
  Known *known = half != SIZE_MAX && query->settled ? *find_known(query, term) : NULL;
  if (known) return recall_term(query, term, known);
  for (int i = 0; i < query->structure.count && rc == SQLITE_OK; i++) {
    Postings *postings = &term->postings[term->count];
    memset(postings, 0, sizeof *postings);
    rc = read_segment(module, query, i, term, hits < half ? half - hits : 0, postings);
    if (postings->first_leaf == postings->past_leaf || rc != SQLITE_OK) continue;
    if (query->structure.version == 1 && term->count == 1) {
      rc = fts5_newer_first(&query->store, &term->postings[0], postings);
    } else {
      term->count++;
    }
    hits += postings->past - postings->first;
  }
  if (rc == SQLITE_OK && hits >= half) {
    set_apart(query, term, count, size);
    if (query->tokens < 1) return FTS5_NOT_READ;
    remember(query, term, first_leaf);
    return SQLITE_OK;
  }
  hits = 0;
  for (int i = 0; i < term->count && rc == SQLITE_OK; i++) {
    if (query->structure.version == 1) drop_empty(&query->store, &term->postings[i]);
    hits += term->postings[i].past - term->postings[i].first;
  }
  if (hits > (size_t)query->rows || (hits && query->tokens < 1)) return FTS5_NOT_READ; /* numbers that cannot be */
  term->idf = log(((double)(query->rows - (sqlite3_int64)hits) + 0.5) / ((double)hits + 0.5));
  if (term->idf <= 0.0) term->idf = 1e-6;
  return rc;
}

/* Read the postings of the terms set apart after all: rows are scored exactly from now on. */
int lexical_read_apart(Cursor *cursor) {
  Query *query = &cursor->query;
  int rc = SQLITE_OK;
  query->apart = 0.0;
  query->rough = false;
  for (int i = 0; i < query->count && rc == SQLITE_OK; i++) {
    if (query->terms[i].apart) rc = lexical_read_term(module_of(cursor), query, &query->terms[i], false);
  }
  return rc;
}
