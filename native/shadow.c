/*
** Reading the shadow tables of one vec0 table (sqlite-vec 0.1).
**
** vec0 keeps the rows of a table T in chunks of so many slots each:
**   T_chunks(chunk_id, size, validity, rowids)   a bit for each slot that is taken, and 8 bytes of rowid
**   T_vector_chunks00(rowid, vectors)            the vectors, slot by slot
**   T_metadatachunks0N(rowid, data)              of the metadata column N 8 bytes (INTEGER) or 16 (TEXT) a slot
** Rows are put into free slots of the last chunk only; a chunk without rows is deleted, and its number not used again.
** So a chunk that another one follows directly was never the last one since, and no row was put into it.
*/
#include "shadow.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

static int fails(Shadow *shadow, const char *what) {
  if (shadow->error == 0) shadow->error = sqlite3_mprintf("%s: %s", shadow->name, what);
  return SQLITE_ERROR;
}

int shadow_corrupt(Shadow *shadow, const char *what, sqlite3_int64 chunk) {
  if (shadow->error == 0) {
    shadow->error = sqlite3_mprintf("%s: %s of chunk %lld cannot be read", shadow->name, what, chunk);
  }
  return SQLITE_CORRUPT_VTAB;
}

int shadow_prepare(Shadow *shadow, const char *format, sqlite3_stmt **statement) {
  char *sql = sqlite3_mprintf(format, shadow->name);
  if (sql == 0) return SQLITE_NOMEM;
  int rc = sqlite3_prepare_v2(shadow->db, sql, -1, statement, 0);
  sqlite3_free(sql);
  return rc;
}

/* ---- The declaration ---- */

typedef struct Text {
  const char *at;
  int n;
} Text;

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static Text trimmed(Text text) {
  while (text.n > 0 && is_space(text.at[0])) text.at++, text.n--;
  while (text.n > 0 && is_space(text.at[text.n - 1])) text.n--;
  return text;
}

/* Take the first word off. */
static Text next_word(Text *rest) {
  *rest = trimmed(*rest);
  Text word = {rest->at, 0};
  while (word.n < rest->n && is_word(word.at[word.n])) word.n++;
  rest->at += word.n;
  rest->n -= word.n;
  *rest = trimmed(*rest);
  return word;
}

static int is(Text word, const char *name) {
  return (size_t)word.n == strlen(name) && sqlite3_strnicmp(word.at, name, word.n) == 0;
}

/* A number of one to four digits; -1: none. */
static int number_of(Text text) {
  int value = 0;
  if (text.n < 1 || text.n > 4) return -1;
  for (int i = 0; i < text.n; i++) {
    if (text.at[i] < '0' || text.at[i] > '9') return -1;
    value = value * 10 + (text.at[i] - '0');
  }
  return value;
}

/* `name INT8[384] distance_metric=cosine`, after the type's name. */
static int read_vector_column(Shadow *shadow, Text rest) {
  const char *end = rest.n > 0 ? memchr(rest.at, ']', (size_t)rest.n) : 0;
  if (rest.n == 0 || rest.at[0] != '[' || end == 0) return fails(shadow, "its vectors have no dimension");
  if (shadow->dims != 0) return fails(shadow, "it has several vectors");
  shadow->dims = number_of((Text){rest.at + 1, (int)(end - rest.at) - 1});
  if (shadow->dims < 1 || shadow->dims > MEMDB0_MAX_DIMENSIONS) return fails(shadow, "its dimension is out of range");
  Text metric = {end + 1, rest.n - (int)(end - rest.at) - 1};
  Text key = next_word(&metric);
  if (!is(key, "distance_metric") || metric.n == 0 || metric.at[0] != '=') {
    return fails(shadow, "its vectors are not compared by cosine");
  }
  metric.at++, metric.n--;
  return is(trimmed(metric), "cosine") ? SQLITE_OK : fails(shadow, "its vectors are not compared by cosine");
}

static int read_option(Shadow *shadow, Text name, Text value) {
  if (!is(name, "chunk_size")) return SQLITE_OK;
  shadow->slots = number_of(trimmed(value));
  return SQLITE_OK;
}

/* One argument between the commas; `metadata` counts the columns of that kind. */
static int read_argument(Shadow *shadow, Text text, int *metadata) {
  Text rest = trimmed(text);
  if (rest.n == 0 || rest.at[0] == '+') return SQLITE_OK;
  Text name = next_word(&rest);
  if (name.n == 0 || rest.n == 0) return fails(shadow, "its declaration is not understood");
  if (rest.at[0] == '=') return read_option(shadow, name, (Text){rest.at + 1, rest.n - 1});
  Text type = next_word(&rest);
  if (is(type, "int8")) return read_vector_column(shadow, rest);
  Text role = next_word(&rest);
  if (is(role, "primary")) return is(type, "integer") ? SQLITE_OK : fails(shadow, "its key is no integer");
  if (role.n != 0 || rest.n != 0) return fails(shadow, "it has a column of a kind that is not understood");
  if (is(type, "integer") && is(name, "scope_id")) shadow->number[SHADOW_SCOPE] = *metadata;
  if (is(type, "integer") && is(name, "said_key")) shadow->number[SHADOW_SAID] = *metadata;
  if (is(type, "text") && is(name, "axis")) shadow->number[SHADOW_AXIS] = *metadata;
  *metadata += 1;
  return SQLITE_OK;
}

/* CREATE VIRTUAL TABLE name USING vec0 ( argument, ... ) */
static int read_declaration(Shadow *shadow, const char *sql) {
  static const char *const head[] = {"create", "virtual", "table", 0, "using", "vec0"};
  Text rest = {sql, (int)strlen(sql)};
  int metadata = 0, rc = SQLITE_OK;
  for (int i = 0; i < 6; i++) {
    Text word = next_word(&rest);
    if (!is(word, head[i] ? head[i] : shadow->name)) return fails(shadow, "it is no table of vec0");
  }
  if (rest.n < 2 || rest.at[0] != '(' || rest.at[rest.n - 1] != ')') return fails(shadow, "it is no table of vec0");
  const char *at = rest.at + 1, *end = rest.at + rest.n - 1;
  while (rc == SQLITE_OK && at < end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    rc = read_argument(shadow, (Text){at, (int)(stop - at)}, &metadata);
    at = stop + 1;
  }
  if (rc != SQLITE_OK) return rc;
  if (shadow->dims == 0) return fails(shadow, "its vectors are not of int8");
  if (shadow->slots < 8 || shadow->slots > SHADOW_MAX_SLOTS || shadow->slots % 8 != 0 || metadata > 16) {
    return fails(shadow, "its declaration is not understood");
  }
  return SQLITE_OK;
}

/* The one value of a statement in `out`, or nothing; a text is copied. */
static int find_declaration(Shadow *shadow, char **out) {
  sqlite3_stmt *statement = 0;
  int rc = sqlite3_prepare_v2(shadow->db, "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1", -1,
                              &statement, 0);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text(statement, 1, shadow->name, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *sql = (const char *)sqlite3_column_text(statement, 0);
    *out = sqlite3_mprintf("%s", sql ? sql : "");
    rc = *out ? SQLITE_OK : SQLITE_NOMEM;
  } else if (rc == SQLITE_DONE) {
    rc = fails(shadow, "there is no such table");
  }
  sqlite3_finalize(statement);
  return rc;
}

/* So that no arithmetic with the number of a slot overflows. */
static int is_chunk(sqlite3_int64 chunk) { return chunk >= 1 && chunk < INT64_MAX / SHADOW_MAX_SLOTS - 1; }

static int find_last_chunk(Shadow *shadow) {
  sqlite3_stmt *statement = 0;
  int rc = shadow_prepare(shadow, "SELECT max(chunk_id) FROM main.\"%w_chunks\"", &statement);
  if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    shadow->last_chunk = sqlite3_column_int64(statement, 0);
    rc = is_chunk(shadow->last_chunk + (shadow->last_chunk == 0)) ? SQLITE_OK
                                                                   : shadow_corrupt(shadow, "the number", shadow->last_chunk);
  }
  sqlite3_finalize(statement);
  return rc;
}

int shadow_open(Shadow *shadow, sqlite3 *db, const char *name) {
  char *sql = 0;
  memset(shadow, 0, sizeof(*shadow));
  shadow->db = db;
  shadow->slots = 1024; /* vec0's default */
  shadow->upcoming = -1;
  for (int kind = 0; kind < SHADOW_KINDS; kind++) shadow->number[kind] = -1;
  shadow->name = sqlite3_mprintf("%s", name);
  if (shadow->name == 0) return SQLITE_NOMEM;
  for (const char *c = name; *c; c++) {
    if (!is_word(*c)) return fails(shadow, "there is no such table");
  }
  int rc = find_declaration(shadow, &sql);
  if (rc == SQLITE_OK) rc = read_declaration(shadow, sql);
  sqlite3_free(sql);
  if (rc == SQLITE_OK) rc = find_last_chunk(shadow);
  if (rc == SQLITE_OK) {
    rc = shadow_prepare(shadow, "SELECT chunk_id, size, validity FROM main.\"%w_chunks\" ORDER BY chunk_id",
                        &shadow->chunks);
  }
  return rc;
}

void shadow_close(Shadow *shadow) {
  for (int kind = 0; kind < SHADOW_KINDS; kind++) sqlite3_blob_close(shadow->blob[kind]);
  sqlite3_finalize(shadow->chunks);
  sqlite3_free(shadow->name);
  sqlite3_free(shadow->error);
  memset(shadow, 0, sizeof(*shadow));
}

/* ---- The chunks ---- */

static int step_chunks(Shadow *shadow) {
  int rc = sqlite3_step(shadow->chunks);
  shadow->upcoming = rc == SQLITE_ROW ? sqlite3_column_int64(shadow->chunks, 0) : 0;
  if (rc == SQLITE_ROW && !is_chunk(shadow->upcoming)) return shadow_corrupt(shadow, "the number", shadow->upcoming);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int shadow_next(Shadow *shadow, sqlite3_int64 *chunk) {
  int rc = shadow->upcoming < 0 ? step_chunks(shadow) : SQLITE_OK;
  if (rc != SQLITE_OK) return rc;
  if ((*chunk = shadow->upcoming) == 0) return SQLITE_DONE;
  const void *validity = sqlite3_column_blob(shadow->chunks, 2);
  if (sqlite3_column_int64(shadow->chunks, 1) != shadow->slots || validity == 0 ||
      sqlite3_column_bytes(shadow->chunks, 2) != shadow->slots / 8) {
    return shadow_corrupt(shadow, "validity", *chunk);
  }
  memcpy(shadow->validity, validity, (size_t)shadow->slots / 8);
  rc = step_chunks(shadow);
  shadow->followed = shadow->upcoming == *chunk + 1;
  return rc == SQLITE_OK ? SQLITE_ROW : rc;
}

void shadow_rewind(Shadow *shadow) {
  sqlite3_reset(shadow->chunks);
  shadow->upcoming = -1;
}

static int open_blob(Shadow *shadow, int kind, sqlite3_int64 chunk) {
  const char *column = kind == SHADOW_VECTORS ? "vectors" : kind == SHADOW_ROWIDS ? "rowids" : "data";
  char *table;
  if (kind == SHADOW_VECTORS) {
    table = sqlite3_mprintf("%s_vector_chunks00", shadow->name);
  } else if (kind == SHADOW_ROWIDS) {
    table = sqlite3_mprintf("%s_chunks", shadow->name);
  } else {
    table = sqlite3_mprintf("%s_metadatachunks%02d", shadow->name, shadow->number[kind]);
  }
  if (table == 0) return SQLITE_NOMEM;
  int rc = sqlite3_blob_open(shadow->db, "main", table, column, chunk, 0, &shadow->blob[kind]);
  sqlite3_free(table);
  return rc;
}

static int slot_bytes(const Shadow *shadow, int kind) {
  return kind == SHADOW_VECTORS ? shadow->dims : kind == SHADOW_AXIS ? SHADOW_TEXT_BYTES : 8;
}

int shadow_read(Shadow *shadow, int kind, sqlite3_int64 chunk, int first, int n, void *out) {
  static const char *const what[] = {"the vectors", "the rowids", "scope_id", "said_key", "axis"};
  int bytes = slot_bytes(shadow, kind), rc = SQLITE_OK;
  if (shadow->blob[kind] == 0) {
    rc = open_blob(shadow, kind, chunk);
  } else if (shadow->at[kind] != chunk) {
    rc = sqlite3_blob_reopen(shadow->blob[kind], chunk);
  }
  if (rc == SQLITE_OK) {
    shadow->at[kind] = chunk;
    if (sqlite3_blob_bytes(shadow->blob[kind]) != bytes * shadow->slots) {
      return shadow_corrupt(shadow, what[kind], chunk);
    }
    rc = sqlite3_blob_read(shadow->blob[kind], out, n * bytes, first * bytes);
  } else {
    sqlite3_blob_close(shadow->blob[kind]);
    shadow->blob[kind] = 0;
  }
  return rc == SQLITE_ERROR ? shadow_corrupt(shadow, what[kind], chunk) : rc;
}
