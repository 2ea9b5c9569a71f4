/*
** What the programs in fuzz/ that ask a database share.
*/
#ifndef FUZZ_TABLES_H
#define FUZZ_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#define DIMS 24
#define SLOTS 16
#define CHUNKS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void must(int good);

/* A connection with memdb0 to a database in memory, a new one for each input. It takes no more memory than any small
** database needs: what would take more fails. `make` fills the first one; the others are copies of it. */
sqlite3 *open_copy(void (*make)(sqlite3 *db));

/* The vec0 table t of CHUNKS chunks of SLOTS vectors, with codes: made by hand, since vec0 is not needed. */
void make_vectors(sqlite3 *db);

/* Run a statement with ?1, ?2, ?3 as far as it has them; it may fail. */
void run(sqlite3 *db, const char *sql, const void *blob, int n, sqlite3_int64 row, sqlite3_int64 number);

/* Run a search to its end and finalize it: rows, or an error that says what is wrong. */
void search_to_end(sqlite3_stmt *statement);

#endif
