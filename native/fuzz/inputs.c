/*
** A driver for fuzz_*.c where the compiler has none: each argument is a file, and its bytes are one input.
*/
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of the file in memory of exactly that size, so that a read beyond them is found. NULL if it fails. */
static uint8_t *read_file(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  uint8_t *data = 0;
  long end = -1;
  if (file == 0) return 0;
  if (fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    *size = (size_t)end;
    data = malloc(*size > 0 ? *size : 1);
    if (data != 0 && fread(data, 1, *size, file) != *size) {
      free(data);
      data = 0;
    }
  }
  fclose(file);
  return data;
}

int main(int n, char **names) {
  for (int i = 1; i < n; i++) {
    size_t size = 0;
    uint8_t *data = read_file(names[i], &size);
    if (data == 0) {
      fprintf(stderr, "%s cannot be read\n", names[i]);
      return 1;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
  }
  printf("%d inputs\n", n - 1);
  return 0;
}
