/* Trains the digits network from scratch: the exported step of Adam, its state in this program's memory. Then compares the state with that of the
   same training in Python, byte for byte. C99; needs train.h and train.so only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { PIXELS = 64, BATCH = 64 };

static void *aligned(size_t bytes, void **block) {
  *block = malloc(bytes + 64);
  return *block ? (void *)(((uintptr_t)*block + 63) / 64 * 64) : NULL;
}

int main(void) {
  static float x[BATCH * PIXELS];
  static int32_t t[BATCH];
  float loss = 0;
  void *blocks[3];
  train_state *state = aligned(TRAIN_STATE_BYTES, &blocks[0]), *python = aligned(TRAIN_STATE_BYTES, &blocks[1]);
  train_step_inputs in;
  train_step_outputs out;
  sg_call call = { 0 };
  FILE *batches = fopen("batches.bin", "rb"), *trained = fopen("trained.bin", "rb");
  int steps = 0, k;
  int32_t status;
  char text[512];
  in.x = x;
  in.t = t;
  out.loss = &loss;
  call.workspace_bytes = TRAIN_WORKSPACE_BYTES;
  call.workspace = aligned(TRAIN_WORKSPACE_BYTES, &blocks[2]);
  if (batches == NULL || trained == NULL) { puts("batches.bin or trained.bin is missing: run make_models.py first"); return 1; }
  if (state == NULL || python == NULL || call.workspace == NULL) { puts("out of memory"); return 1; }
  train_state_init(state);                       /* the initial weights, from the export */
  while (fread(x, sizeof x, 1, batches) == 1 && fread(t, sizeof t, 1, batches) == 1) {
    status = train_step(state, &in, &out, &call);
    if (status != SG_OK) {                       /* a step that fails has changed nothing */
      puts(train_describe(status, &call, text, sizeof text));
      return 1;
    }
    if (++steps % 100 == 0) printf("step %4d  loss %.6f\n", steps, loss);
  }
  printf("C trained %d steps, loss %.6f\n", steps, loss);
  if (fread(python, 1, TRAIN_STATE_BYTES, trained) == TRAIN_STATE_BYTES) {
    unsigned char *mine = malloc(TRAIN_STATE_BYTES);
    if (mine == NULL || train_state_save(state, mine, TRAIN_STATE_BYTES) != SG_OK) return 1;
    k = memcmp(mine, python, TRAIN_STATE_BYTES);
    puts(k == 0 ? "the state has the bits of the Python session" : "the state DIFFERS from the Python session's");
    free(mine);
    if (k != 0) return 1;
  }
  fclose(batches);
  fclose(trained);
  for (k = 0; k < 3; k++) free(blocks[k]);
  return steps == 0;
}
