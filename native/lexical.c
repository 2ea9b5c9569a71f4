/*
** term_top(index, terms, weights, columns): the rows of an FTS5 table with the best BM25 scores, best first.
**
**   SELECT id, score FROM term_top('message_terms', '["cat", "dog"]', '[1.0, 0.5]', '["own", "question"]')
**
** gives what this gives, in its order and to the last bit of the scores, many times faster where words are common:
**
**   SELECT rowid, -bm25(message_terms, 1.0, 0.5) AS score FROM message_terms
**   WHERE message_terms MATCH '{own question} : ("cat" OR "dog")' ORDER BY score DESC, rowid
**
** weights and columns may be NULL: 1 each, all of them. `index` is a table of the schema main.
**
** How it works. FTS5 ranks a row by seeking its lengths and by parsing position lists through several layers. Here the
** doclists of the terms are read from X_data first (fts5_index.c). Then the document frequencies are known, and rows are
** scored block by block for a portion of the best (scoring.c). When more are pulled, the blocks are scored again for a
** larger portion that comes after it.
**
** What must agree with FTS5 is asked of FTS5: an auxiliary function, term_probe(), runs on a row of the table and gets
** the tokens of the terms by the table's own tokenizer, the number of rows and of tokens. Rows written in a transaction
** wait in FTS5's memory until a savepoint flushes them: one is opened and released where a transaction has written.
** Whatever is not understood (a term of several tokens, another detail level, rows far apart) is answered by FTS5's own
** query on the same connection.
*/
#include <float.h>
#include <string.h>

#include "lexical.h"
#include "memdb0.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT3
#endif

#define FIRST_PORTION 128
#define PORTION_GROWTH 8
#define MOST_PORTION (1 << 20)
#define KEPT_INDEXES 8   /* tables whose statements a connection keeps */
#define MOST_SPARE (2 << 20)    /* postings whose memory is kept between queries */
#define LEAST_ROUGH (1 << 18)   /* postings from which on rows are scored roughly first */
#define MOST_ROUGH (1 << 13)    /* a portion that is still scored roughly first */

static const char schema[] =
    "CREATE TABLE x(id INTEGER, score REAL, \"index\" HIDDEN, terms HIDDEN, weights HIDDEN, columns HIDDEN)";
enum { COLUMN_ID, COLUMN_SCORE, COLUMN_INDEX, COLUMN_TERMS, COLUMN_WEIGHTS, COLUMN_COLUMNS };

static const char *const questions[ASKS] = {
    "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = '%q' COLLATE nocase",
    "SELECT * FROM main.\"%w\" LIMIT 0",
    "SELECT term_probe(\"%w\", ?1) FROM main.\"%w\" LIMIT 1",
    "SELECT v FROM main.\"%w_config\" WHERE k = 'version'",
    "SELECT block FROM main.\"%w_data\" WHERE id = 10",
    "SELECT id, block FROM main.\"%w_data\" WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    "SELECT pgno FROM main.\"%w_idx\" WHERE segid = ?1 AND term <= ?2 ORDER BY term DESC LIMIT 1",
    "SELECT id, block FROM main.\"%w_data\" WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    "SELECT sz FROM main.\"%w_docsize\" WHERE id = ?1",
    "SELECT id, sz FROM main.\"%w_docsize\" WHERE id BETWEEN ?1 AND ?2",
    "SELECT lengths FROM main.\"%w_length\" WHERE block = -1",
    "SELECT block, lengths FROM main.\"%w_length\" WHERE block BETWEEN ?1 AND ?2",
    "PRAGMA main.data_version",
    "PRAGMA main.schema_version",
};

/* ------------------------------------------------------------------ Asking FTS5 and the shadow tables ------------ */

static void forget_index(Index *index) {
  for (int i = 0; i < ASKS; i++) sqlite3_finalize(index->ask[i]);
  lexical_forget_known(index);
  sqlite3_free(index->state.structure);
  sqlite3_free(index->name);
  sqlite3_free(index);
}

int lexical_ask(Module *module, Index *index, int question, sqlite3_stmt **statement) {
  int rc = SQLITE_OK;
  if (index->ask[question] == NULL) {
    char *sql = sqlite3_mprintf(questions[question], index->name, index->name);
    if (sql == NULL) return SQLITE_NOMEM;
    rc = sqlite3_prepare_v3(module->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &index->ask[question], NULL);
    sqlite3_free(sql);
  }
  *statement = index->ask[question];
  if (*statement) sqlite3_reset(*statement);
  return rc;
}

/* Move the table to the head of the list; forget what nobody uses behind the first KEPT_INDEXES. */
static int find_index(Module *module, const char *name, Index **found) {
  Index **link = &module->indexes, *index;
  while (*link && strcmp((*link)->name, name) != 0) link = &(*link)->next;
  index = *link;
  if (index) {
    *link = index->next;
  } else {
    index = sqlite3_malloc64(sizeof *index);
    if (index == NULL) return SQLITE_NOMEM;
    memset(index, 0, sizeof *index);
    index->name = sqlite3_mprintf("%s", name);
    if (index->name == NULL) {
      sqlite3_free(index);
      return SQLITE_NOMEM;
    }
  }
  index->next = module->indexes;
  module->indexes = index;
  index->users++;
  link = &module->indexes;
  for (int n = 0; *link; n++) {
    Index *one = *link;
    if (n < KEPT_INDEXES || one->users) {
      link = &one->next;
    } else {
      *link = one->next;
      forget_index(one);
    }
  }
  *found = index;
  return SQLITE_OK;
}

/* Options that change what the records hold, or what a token is. The words may as well be names: then FTS5 answers. */
static bool is_plain(const char *sql) {
  static const char *const options[] = {"detail", "columnsize", "tokendata", "locale", NULL};
  for (int i = 0; options[i]; i++) {
    for (const char *s = sql; *s; s++) {
      if (sqlite3_strnicmp(s, options[i], (int)strlen(options[i])) == 0) return false;
    }
  }
  return true;
}

static int check_kind(Module *module, Index *index) {
  sqlite3_stmt *statement;
  int rc = lexical_ask(module, index, ASK_SCHEMA, &statement);
  if (rc != SQLITE_OK) return rc;
  bool plain = false;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    const char *sql = (const char *)sqlite3_column_text(statement, 0);
    plain = sql && is_plain(sql);
  }
  rc = sqlite3_reset(statement);
  if (rc != SQLITE_OK) return rc;
  if (!plain) return FTS5_NOT_READ;
  rc = lexical_ask(module, index, ASK_VERSION, &statement);
  if (rc != SQLITE_OK) return FTS5_NOT_READ;
  int version = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
  rc = sqlite3_reset(statement);
  if (rc != SQLITE_OK) return rc;
  return version == 4 || version == 5 ? SQLITE_OK : FTS5_NOT_READ;
}

/* Rows that this connection wrote in its transaction are in FTS5's memory until a savepoint is opened. */
static int flush(sqlite3 *db) {
  if (sqlite3_txn_state(db, "main") != SQLITE_TXN_WRITE) return SQLITE_OK;
  if (sqlite3_get_autocommit(db)) return FTS5_NOT_READ;
  int rc = sqlite3_exec(db, "SAVEPOINT memdb0", NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_exec(db, "RELEASE memdb0", NULL, NULL, NULL);
  return rc == SQLITE_OK ? SQLITE_OK : FTS5_NOT_READ;
}

static int keep_token(void *context, int flags, const char *token, int size, int start, int end) {
  Term *term = context;
  (void)start;
  (void)end;
  term->tokens += flags & FTS5_TOKEN_COLOCATED ? 2 : 1;
  if (term->tokens > 1) return SQLITE_OK;
  if (size > FTS5_MOST_TOKEN_BYTES) size = FTS5_MOST_TOKEN_BYTES;
  term->token = sqlite3_malloc64(size + 1);
  if (term->token == NULL) return SQLITE_NOMEM;
  term->token[0] = '0';
  memcpy(term->token + 1, token, size);
  term->token_size = size + 1;
  return SQLITE_OK;
}

/* The auxiliary function: FTS5's part of a query. It answers only whoever holds a Query. */
static void probe(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *context, int count,
                  sqlite3_value **values) {
  Query *query = count == 1 ? sqlite3_value_pointer(values[0], "memdb0_query") : NULL;
  if (query == NULL) return;
  int rc = api->xRowCount(fts, &query->rows);
  if (rc == SQLITE_OK) rc = api->xColumnTotalSize(fts, -1, &query->tokens);
  for (int i = 0; i < query->count && rc == SQLITE_OK; i++) {
    Term *term = &query->terms[i];
    rc = api->xTokenize(fts, term->text, term->text_size, term, keep_token);
    if (rc == SQLITE_OK && term->tokens > 1) rc = FTS5_NOT_READ;
  }
  sqlite3_result_int(context, rc);
}

static int run_probe(Module *module, Query *query) {
  sqlite3_stmt *statement;
  if (lexical_ask(module, query->index, ASK_PROBE, &statement) != SQLITE_OK) return FTS5_NOT_READ;
  int rc = sqlite3_bind_pointer(statement, 1, query, "memdb0_query", NULL);
  int answer = FTS5_NOT_READ;
  if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
    answer = sqlite3_column_int(statement, 0);
  }
  if (sqlite3_reset(statement) != SQLITE_OK) answer = FTS5_NOT_READ;
  sqlite3_bind_null(statement, 1);
  if (answer == SQLITE_OK && query->rows < 1) return FTS5_NOT_READ;
  query->mean_length = (double)query->tokens / (double)query->rows;
  return answer;
}

static int64_t get64(const uint8_t *data) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | data[i];
  return (int64_t)value;
}

/*
** Whether X_length is there and tells of the rows as they are now. Its stamp has the rows and tokens it knows of, and
** the origin of the last row: what was written since is in a segment of a later origin, or changes the numbers.
*/
static bool lengths_are_tabled(Module *module, Query *query) {
  sqlite3_stmt *statement;
  bool fresh = false;
  if (query->structure.version != 2) return false;
  if (lexical_ask(module, query->index, ASK_STAMP, &statement) != SQLITE_OK) return false;
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_BLOB &&
      sqlite3_column_bytes(statement, 0) == 24) {
    const uint8_t *stamp = sqlite3_column_blob(statement, 0);
    fresh = get64(stamp) >= query->structure.origin && get64(stamp + 8) == query->rows &&
            get64(stamp + 16) == query->tokens;
  }
  sqlite3_reset(statement);
  return fresh;
}

/* ------------------------------------------------------------------ A query ------------------------------------- */

/* Give the memory of the store to the next query, unless that has some already, or it is much. */
static void leave_store(Module *module, Store *store) {
  store->count = store->size = store->leaves = 0;
  if (module->spare.room == 0 && store->room <= MOST_SPARE && store->bytes_room <= 8 * MOST_SPARE) {
    fts5_store_clear(&module->spare); /* of a query that failed it may have leaves, but no postings */
    module->spare = *store;
    memset(store, 0, sizeof *store);
  }
  fts5_store_clear(store);
}

static void clear_query(Module *module, Query *query) {
  leave_store(module, &query->store);
  if (query->index) query->index->users--;
  for (int i = 0; i < query->count; i++) {
    Term *term = &query->terms[i];
    sqlite3_free(term->postings);
    sqlite3_free(term->text);
    sqlite3_free(term->token);
  }
  sqlite3_free(query->terms);
  for (int i = 0; query->deleted && i < query->structure.count; i++) sqlite3_free(query->deleted[i].bits);
  sqlite3_free(query->deleted);
  sqlite3_free(query->structure.segments);
  fts5_weights_clear(&query->weights);
  memset(query, 0, sizeof *query);
}

static bool is_given(sqlite3_value *value) { return value && sqlite3_value_type(value) != SQLITE_NULL; }

/* Step through a JSON array: SQLITE_ROW for each element. */
static int open_json(Module *module, sqlite3_value *array, sqlite3_stmt **statement) {
  int rc = SQLITE_OK;
  if (module->json == NULL) {
    rc = sqlite3_prepare_v3(module->db, "SELECT value FROM json_each(?1)", -1, SQLITE_PREPARE_PERSISTENT, &module->json,
                            NULL);
  }
  if (rc == SQLITE_OK) {
    sqlite3_reset(module->json);
    rc = sqlite3_bind_value(module->json, 1, array);
  }
  *statement = module->json;
  return rc;
}

static int close_json(Module *module, int rc) {
  int error = sqlite3_reset(module->json);
  if (error != SQLITE_OK) {
    sqlite3_free(module->base.zErrMsg);
    module->base.zErrMsg = sqlite3_mprintf("term_top: %s", sqlite3_errmsg(module->db));
  }
  sqlite3_bind_null(module->json, 1);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? error : rc;
}

/* NUL ends an FTS5 query: it counts as a blank. */
static int add_term(Query *query, const char *text, int size) {
  Term *terms = sqlite3_realloc64(query->terms, (query->count + 1) * sizeof *terms);
  if (terms == NULL) return SQLITE_NOMEM;
  query->terms = terms;
  Term *term = &terms[query->count];
  memset(term, 0, sizeof *term);
  term->text = sqlite3_malloc64((sqlite3_uint64)size + 1);
  if (term->text == NULL) return SQLITE_NOMEM;
  query->count++;
  for (int i = 0; i < size; i++) term->text[i] = text[i] ? text[i] : ' ';
  term->text[size] = 0;
  term->text_size = size;
  return SQLITE_OK;
}

static int read_terms(Module *module, Query *query, sqlite3_value *array) {
  sqlite3_stmt *statement;
  int rc = open_json(module, array, &statement);
  if (rc != SQLITE_OK) return rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    if (text) rc = add_term(query, text, sqlite3_column_bytes(statement, 0));
    if (rc != SQLITE_ROW && rc != SQLITE_OK) break;
  }
  return close_json(module, rc);
}

/* Weights of columns from the first on; those of others are 1, as in bm25(). */
static int read_weights(Module *module, Query *query, sqlite3_value *array) {
  sqlite3_stmt *statement;
  bool fit = true;
  if (!is_given(array)) return SQLITE_OK;
  int rc = open_json(module, array, &statement);
  if (rc != SQLITE_OK) return rc;
  for (int i = 0; (rc = sqlite3_step(statement)) == SQLITE_ROW; i++) {
    double weight = sqlite3_column_double(statement, 0);
    if (!(weight >= 0.0 && weight <= DBL_MAX)) fit = false;
    if (i < query->weights.columns) query->weights.weight[i] = weight;
  }
  rc = close_json(module, rc);
  return rc == SQLITE_OK && !fit ? FTS5_NOT_READ : rc;
}

static int read_columns(Module *module, Query *query, sqlite3_stmt *columns, sqlite3_value *array) {
  sqlite3_stmt *statement;
  bool found = true, any = false;
  if (!is_given(array)) return SQLITE_OK;
  memset(query->weights.wanted, 0, query->weights.columns);
  int rc = open_json(module, array, &statement);
  if (rc != SQLITE_OK) return rc;
  while (found && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    found = false;
    for (int i = 0; name && i < query->weights.columns; i++) {
      if (sqlite3_stricmp(name, sqlite3_column_name(columns, i)) == 0) query->weights.wanted[i] = found = any = true;
    }
  }
  rc = close_json(module, rc);
  return rc == SQLITE_OK && !(found && any) ? FTS5_NOT_READ : rc;
}

static int wanted_prefix(const Weights *weights) {
  int wanted = 0, prefix = 0;
  for (int i = 0; i < weights->columns; i++) wanted += weights->wanted[i];
  while (prefix < weights->columns && weights->wanted[prefix]) prefix++;
  return wanted == prefix ? prefix : -1;
}

/* All that is known before the postings are read. FTS5_NOT_READ: let FTS5 answer. */
static int prepare_query(Cursor *cursor, sqlite3_value *weights, sqlite3_value *columns) {
  Module *module = module_of(cursor);
  Query *query = &cursor->query;
  sqlite3_stmt *statement;
  int rc = check_kind(module, query->index);
  if (rc == SQLITE_OK) rc = flush(module->db);
  if (rc != SQLITE_OK) return rc;
  if (lexical_ask(module, query->index, ASK_COLUMNS, &statement) != SQLITE_OK) return FTS5_NOT_READ;
  sqlite3_step(statement); /* now it knows the columns of a table that was made anew */
  if (sqlite3_reset(statement) != SQLITE_OK) return FTS5_NOT_READ;
  rc = fts5_weights_init(&query->weights, sqlite3_column_count(statement));
  if (rc == SQLITE_OK) rc = read_weights(module, query, weights);
  if (rc == SQLITE_OK) rc = read_columns(module, query, statement, columns);
  fts5_weights_ready(&query->weights);
  query->prefix = wanted_prefix(&query->weights);
  if (rc == SQLITE_OK) rc = run_probe(module, query);
  if (rc == SQLITE_OK) rc = lexical_read_structure(module, query);
  if (rc == SQLITE_OK) query->tabled = lengths_are_tabled(module, query);
  return rc;
}

static int answer(Cursor *cursor, sqlite3_value *weights, sqlite3_value *columns) {
  Module *module = module_of(cursor);
  Query *query = &cursor->query;
  query->store = module->spare;
  memset(&module->spare, 0, sizeof module->spare);
  int rc = prepare_query(cursor, weights, columns);
  for (int i = 0; i < query->count && rc == SQLITE_OK; i++) {
    if (query->terms[i].tokens == 1) rc = lexical_read_term(module, query, &query->terms[i], true);
  }
  if (rc != SQLITE_OK) return rc;
  if (cursor->score == NULL) cursor->score = sqlite3_malloc64(BLOCK_ROWS * sizeof *cursor->score);
  if (cursor->length == NULL) cursor->length = sqlite3_malloc64(BLOCK_ROWS * sizeof *cursor->length);
  if (cursor->score == NULL || cursor->length == NULL) return SQLITE_NOMEM;
  cursor->portion = FIRST_PORTION;
  query->rough = query->apart > 0.0 || query->store.count >= LEAST_ROUGH;
  lexical_prepare_scoring(query);
  return lexical_fill_portion(cursor);
}

/* ------------------------------------------------------------------ FTS5's own query ---------------------------- */

static int append_quoted(Module *module, sqlite3_str *expression, sqlite3_value *array) {
  sqlite3_stmt *statement;
  int rc = open_json(module, array, &statement);
  if (rc != SQLITE_OK) return rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    sqlite3_str_appendf(expression, " \"%w\"", name ? name : "");
  }
  return close_json(module, rc);
}

static int own_sql(Module *module, const char *index, sqlite3_value *weights, char **sql) {
  sqlite3_str *text = sqlite3_str_new(module->db);
  sqlite3_stmt *statement;
  int rc = SQLITE_OK;
  sqlite3_str_appendf(text, "SELECT rowid, -bm25(\"%w\"", index);
  if (is_given(weights)) {
    rc = open_json(module, weights, &statement);
    if (rc == SQLITE_OK) {
      while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        sqlite3_str_appendf(text, ", %!.17g", sqlite3_column_double(statement, 0));
      }
      rc = close_json(module, rc);
    }
  }
  sqlite3_str_appendf(text, ") AS score FROM main.\"%w\" WHERE \"%w\" MATCH ?1", index, index);
  sqlite3_str_appendall(text, " ORDER BY score DESC, rowid");
  *sql = sqlite3_str_finish(text);
  return rc == SQLITE_OK && *sql == NULL ? SQLITE_NOMEM : rc;
}

static int ask_own(Cursor *cursor, const char *index, sqlite3_value *weights, sqlite3_value *columns) {
  Module *module = module_of(cursor);
  sqlite3_str *expression = sqlite3_str_new(module->db);
  char *sql = NULL, *match;
  int rc = SQLITE_OK;
  if (is_given(columns)) {
    sqlite3_str_appendall(expression, "{");
    rc = append_quoted(module, expression, columns);
    sqlite3_str_appendall(expression, " } : ");
  }
  sqlite3_str_appendall(expression, "(");
  for (int i = 0; i < cursor->query.count; i++) {
    sqlite3_str_appendf(expression, i ? " OR \"%w\"" : "\"%w\"", cursor->query.terms[i].text);
  }
  sqlite3_str_appendall(expression, ")");
  match = sqlite3_str_finish(expression);
  if (rc == SQLITE_OK && match == NULL) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = own_sql(module, index, weights, &sql);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(module->db, sql, -1, &cursor->own, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(cursor->own, 1, match, -1, SQLITE_TRANSIENT);
  sqlite3_free(sql);
  sqlite3_free(match);
  return rc;
}

/* ------------------------------------------------------------------ The virtual table --------------------------- */

static int module_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **vtab,
                          char **error) {
  (void)aux;
  (void)argc;
  (void)argv;
  (void)error;
  int rc = sqlite3_declare_vtab(db, schema);
  if (rc != SQLITE_OK) return rc;
  sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  Module *module = sqlite3_malloc64(sizeof *module);
  if (module == NULL) return SQLITE_NOMEM;
  memset(module, 0, sizeof *module);
  module->db = db;
  *vtab = &module->base;
  return SQLITE_OK;
}

static int module_disconnect(sqlite3_vtab *vtab) {
  Module *module = (Module *)vtab;
  while (module->indexes) {
    Index *rest = module->indexes->next;
    forget_index(module->indexes);
    module->indexes = rest;
  }
  sqlite3_finalize(module->json);
  fts5_store_clear(&module->spare);
  sqlite3_free(module);
  return SQLITE_OK;
}

/* idxNum: bits of the arguments that are given, from COLUMN_INDEX on. */
static int module_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int given = 0, place[4] = {-1, -1, -1, -1}, argument = 0;
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    if (c->iColumn < COLUMN_INDEX || c->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    if (!c->usable) return SQLITE_CONSTRAINT;
    place[c->iColumn - COLUMN_INDEX] = i;
    given |= 1 << (c->iColumn - COLUMN_INDEX);
  }
  if ((given & 3) != 3) {
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("term_top needs an index and terms");
    return SQLITE_ERROR;
  }
  for (int i = 0; i < 4; i++) {
    if (place[i] < 0) continue;
    info->aConstraintUsage[place[i]].argvIndex = ++argument;
    info->aConstraintUsage[place[i]].omit = 1;
  }
  info->orderByConsumed = (info->nOrderBy == 1 || info->nOrderBy == 2) &&
                          info->aOrderBy[0].iColumn == COLUMN_SCORE && info->aOrderBy[0].desc &&
                          (info->nOrderBy == 1 || (info->aOrderBy[1].iColumn <= COLUMN_ID && !info->aOrderBy[1].desc));
  info->idxNum = given;
  info->estimatedCost = 1000.0;
  info->estimatedRows = 100;
  return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **opened) {
  (void)vtab;
  Cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  if (cursor == NULL) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *opened = &cursor->base;
  return SQLITE_OK;
}

static void cursor_clear(Cursor *cursor) {
  clear_query(module_of(cursor), &cursor->query);
  sqlite3_finalize(cursor->own);
  cursor->own = NULL;
  cursor->count = cursor->at = cursor->before = 0;
  cursor->near_count = 0;
  cursor->begun = cursor->exhausted = cursor->eof = false;
}

static int cursor_close(sqlite3_vtab_cursor *base) {
  Cursor *cursor = (Cursor *)base;
  cursor_clear(cursor);
  sqlite3_free(cursor->hits);
  sqlite3_free(cursor->near);
  sqlite3_free(cursor->length);
  sqlite3_free(cursor->score);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *base) {
  Cursor *cursor = (Cursor *)base;
  if (cursor->own) {
    int rc = sqlite3_step(cursor->own);
    cursor->eof = rc != SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
  }
  int rc = SQLITE_OK;
  if (++cursor->at >= cursor->count && !cursor->exhausted) {
    cursor->last = cursor->hits[cursor->count - 1];
    cursor->before = cursor->count;
    cursor->begun = true;
    if (cursor->portion < MOST_PORTION) cursor->portion *= PORTION_GROWTH;
    if (cursor->query.rough && cursor->portion > MOST_ROUGH) rc = lexical_read_apart(cursor);
    if (rc == SQLITE_OK) rc = lexical_fill_portion(cursor);
  }
  cursor->eof = cursor->at >= cursor->count;
  return rc;
}

static int fail(Cursor *cursor, const char *index, int rc) {
  sqlite3_vtab *vtab = cursor->base.pVtab;
  if (rc == SQLITE_CORRUPT) {
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("term_top: the index %s is damaged", index);
  } else if (rc == SQLITE_ERROR && vtab->zErrMsg == NULL) {
    vtab->zErrMsg = sqlite3_mprintf("term_top: %s", sqlite3_errmsg(((Module *)vtab)->db));
  }
  return rc;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *string, int argc, sqlite3_value **argv) {
  Cursor *cursor = (Cursor *)base;
  Module *module = module_of(cursor);
  (void)string;
  (void)argc;
  cursor_clear(cursor);
  int at = 2;
  sqlite3_value *weights = number & 4 ? argv[at++] : NULL;
  sqlite3_value *columns = number & 8 ? argv[at] : NULL;
  const char *index = (const char *)sqlite3_value_text(argv[0]);
  cursor->eof = true;
  if (index == NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL) return SQLITE_OK;
  int rc = read_terms(module, &cursor->query, argv[1]);
  if (rc != SQLITE_OK || cursor->query.count == 0) return fail(cursor, index, rc);
  rc = find_index(module, index, &cursor->query.index);
  if (rc == SQLITE_OK) rc = answer(cursor, weights, columns);
  if (rc == FTS5_NOT_READ) {
    rc = ask_own(cursor, index, weights, columns);
    if (rc == SQLITE_OK) rc = cursor_next(base);
    return fail(cursor, index, rc);
  }
  cursor->eof = cursor->count == 0;
  return fail(cursor, index, rc);
}

static int cursor_eof(sqlite3_vtab_cursor *base) { return ((Cursor *)base)->eof; }

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  Cursor *cursor = (Cursor *)base;
  *rowid = cursor->own ? sqlite3_column_int64(cursor->own, 0) : cursor->hits[cursor->at].id;
  return SQLITE_OK;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  Cursor *cursor = (Cursor *)base;
  if (cursor->own && column <= COLUMN_SCORE) {
    sqlite3_result_value(context, sqlite3_column_value(cursor->own, column));
  } else if (column == COLUMN_ID) {
    sqlite3_result_int64(context, cursor->hits[cursor->at].id);
  } else if (column == COLUMN_SCORE) {
    sqlite3_result_double(context, cursor->hits[cursor->at].score);
  }
  return SQLITE_OK;
}

static const sqlite3_module term_top = {
    .iVersion = 0,
    .xConnect = module_connect, /* no xCreate: the table is there without CREATE VIRTUAL TABLE */
    .xBestIndex = module_best_index,
    .xDisconnect = module_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

int memdb0_lexical_init(sqlite3 *db) {
  fts5_api *api = NULL;
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, NULL);
  if (rc != SQLITE_OK) return SQLITE_OK; /* without FTS5 there is nothing to read */
  sqlite3_bind_pointer(statement, 1, &api, "fts5_api_ptr", NULL);
  sqlite3_step(statement);
  rc = sqlite3_finalize(statement);
  if (rc != SQLITE_OK || api == NULL) return rc;
  rc = api->xCreateFunction(api, "term_probe", NULL, probe, NULL);
  return rc == SQLITE_OK ? sqlite3_create_module_v2(db, "term_top", &term_top, NULL, NULL) : rc;
}
