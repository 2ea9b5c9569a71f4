/*
** What term_top (lexical.c), its reading (postings.c) and its scoring (scoring.c) share: a query, and the cursor that answers it.
*/
#ifndef MEMDB0_LEXICAL_H
#define MEMDB0_LEXICAL_H

#include <stdbool.h>

#include "fts5_index.h"

#define BLOCK_ROWS 8000
#define BLOCK_WORDS (BLOCK_ROWS / 64)
#define FEW_TOKENS 2048
#define GAIN_TOKENS 512

/* What is asked of an FTS5 table and its shadow tables. */
enum {
  ASK_SCHEMA, ASK_COLUMNS, ASK_PROBE, ASK_VERSION, ASK_STRUCTURE, ASK_TOMBSTONES, ASK_PAGE, ASK_LEAVES, ASK_LENGTH,
  ASK_LENGTHS, ASK_STAMP, ASK_TABLED, ASK_CHANGES, ASK_SCHEMA_CHANGES,
  ASKS
};

/* What a connection remembers of a term that is in half of the rows (postings.c). */
typedef struct Known Known;
struct Known {
  Known *next;
  uint8_t *token;
  int token_size, prefix;
  Postings *postings; /* [count]; their leaves are counted from 0 */
  int count;
  Leaf *leaf;
  size_t leaves;
};

/* The state of a file, in which all that is remembered holds. */
typedef struct State {
  sqlite3_int64 others, schema, own; /* changes by other connections, of the schema, by this one */
  uint8_t *structure;
  int size;
} State;

typedef struct Index Index;
struct Index {
  Index *next;
  char *name;
  int users; /* queries that hold it */
  sqlite3_stmt *ask[ASKS];
  State state;
  Known *known;
  size_t known_leaves;
};

typedef struct Module {
  sqlite3_vtab base;
  sqlite3 *db;
  sqlite3_stmt *json; /* the elements of a JSON array */
  Index *indexes;     /* latest first */
  Store spare;        /* what a query leaves to the next one */
} Module;

typedef struct Term {
  char *text;
  int text_size;
  uint8_t *token; /* as X_data has it: '0' and the token */
  int token_size;
  int tokens;
  double idf;
  bool essential;
  bool apart; /* it is in half of the rows: only the leaves of its postings are known */
  Postings *postings; /* [count], one for each segment that has the term */
  int count;
} Term;

typedef struct Hit {
  double score;
  int64_t id;
  uint16_t length; /* as X_length has it; 0: it is to be looked up */
} Hit;

/* One query: the terms as FTS5 sees them, what it says of the table, and the postings. */
typedef struct Query {
  Index *index;
  Term *terms;
  int count;
  int prefix; /* the columns wanted are the first ones, so many; -1: they are not the first ones */
  Weights weights;
  Store store;
  sqlite3_int64 rows, tokens;
  double mean_length;
  bool tabled; /* X_length tells the lengths */
  double length_part[FEW_TOKENS]; /* k1 * (1 - b + b * D / mean) */
  Structure structure;
  RowSet *deleted; /* for each segment */
  bool settled;    /* nothing is being written: what is found may be remembered */
  double apart;    /* what all terms that are set apart add at most */
  bool rough;      /* rows are scored roughly first, without terms set apart, and the best ones once more */
  double gain[FTS5_MOST_COLUMNS + 1][GAIN_TOKENS]; /* f * (k1 + 1) / (f + part) of a single occurrence, by length */
} Query;

typedef struct Cursor {
  sqlite3_vtab_cursor base;
  Query query;
  Hit *hits; /* the portion: a heap while it is filled, then best first */
  int portion, count, at;
  size_t room;
  int before; /* hits of the portions before */
  bool begun, exhausted;
  Hit last; /* the last hit of the portions before */
  Hit *near; /* rows that terms set apart may lift into the portion */
  size_t near_count, near_room;
  uint16_t *length; /* of the rows of a block, as X_length has them */
  bool measured;    /* whether that is so; else each is sought */
  double *score;
  uint64_t candidate[BLOCK_WORDS]; /* a bit for each row of a block */
  sqlite3_stmt *own; /* FTS5's own query, where it answers */
  bool eof;
} Cursor;

/* The statement of that question, prepared once for each table. */
int lexical_ask(Module *module, Index *index, int question, sqlite3_stmt **statement);

int lexical_read_structure(Module *module, Query *query);
int lexical_read_term(Module *module, Query *query, Term *term, bool may_be_apart);
int lexical_read_leaf(Module *module, Query *query, const Postings *postings, size_t leaf);
int lexical_read_apart(Cursor *cursor);
void lexical_forget_known(Index *index);

/* To be called when it is known how rows are scored. */
void lexical_prepare_scoring(Query *query);

/* Score all rows for the next portion of hits, and put it into the cursor, best first. */
int lexical_fill_portion(Cursor *cursor);

static inline Module *module_of(Cursor *cursor) { return (Module *)cursor->base.pVtab; }

#endif
