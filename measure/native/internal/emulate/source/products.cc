// This file implements the functions of cuBLASLt that the engine calls. They compute
// y = x·wᵀ + beta·y + bias in plain loops, summed in float32.
#include <cstdint>
#include <cstring>
#include <vector>

#include "driver.h"
#include "half.h"

namespace {

enum { OK = 0, INVALID = 7, UNSUPPORTED = 15, F32 = 0, F16 = 2, BF16 = 14 };

struct Desc {
  int transposed = 0, epilogue = 1;
  uint64_t bias = 0;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
};

float to_float(uint16_t v) {
  uint32_t b = (uint32_t)v << 16;
  float f;
  memcpy(&f, &b, 4);
  return f;
}
uint16_t to_16bit(float f) {
  uint32_t b;
  memcpy(&b, &f, 4);
  if ((b & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
float get(uint64_t p, int type, uint64_t i) {
  if (type == F32) return ((float *)p)[i];
  uint16_t v = ((uint16_t *)p)[i];
  return type == F16 ? half_value(v) : to_float(v);
}

// dot adds up 16 sums, which the compiler can vectorize.
float dot(const float *a, const float *b, uint64_t n) {
  float s[16] = {}, sum = 0;
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) s[k] += a[i + k] * b[i + k];
  for (; i < n; i++) sum += a[i] * b[i];
  for (float v : s) sum += v;
  return sum;
}

void multiply(Desc d, Layout lw, Layout lx, Layout ly, float alpha, float beta, uint64_t w, uint64_t x, uint64_t y) {
  uint64_t in = lw.rows, out = lw.cols, rows = lx.cols;
  std::vector<float> xs(in * rows), row(in);
  for (uint64_t r = 0; r < rows; r++)
    for (uint64_t i = 0; i < in; i++) xs[r * in + i] = get(x, lx.type, r * lx.ld + i);
  for (uint64_t o = 0; o < out; o++) {
    for (uint64_t i = 0; i < in; i++) row[i] = get(w, lw.type, o * lw.ld + i);
    float bias = d.epilogue == 4 ? get(d.bias, ly.type, o) : 0.f;
    for (uint64_t r = 0; r < rows; r++) {
      uint64_t at = r * ly.ld + o;
      float v = alpha * dot(&xs[r * in], row.data(), in);
      if (beta != 0) v += beta * get(y, ly.type, at);
      v += bias;
      if (ly.type == F32)
        ((float *)y)[at] = v;
      else
        ((uint16_t *)y)[at] = ly.type == F16 ? round_half(v) : to_16bit(v);
    }
  }
}

} // namespace

extern "C" {

uint64_t cublasLtGetVersion() { return 120000; }
const char *cublasLtGetStatusName(int) { return "CUBLAS_STATUS_EMULATED"; }
const char *cublasLtGetStatusString(int) { return "refused by the emulated cuBLASLt"; }
int cublasLtCreate(void **h) { return *h = new int, OK; }
int cublasLtDestroy(int *h) { return delete h, OK; }
int cublasLtMatmulDescCreate(Desc **d, int compute, int scale) { return compute != 68 || scale != F32 ? UNSUPPORTED : (*d = new Desc, OK); }
int cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *v, uint64_t n) {
  if (attribute == 3 && n == 4) return memcpy(&d->transposed, v, 4), OK;
  if (attribute == 7 && n == 4) return memcpy(&d->epilogue, v, 4), OK;
  if (attribute == 8 && n == 8) return memcpy(&d->bias, v, 8), OK;
  return UNSUPPORTED;
}
int cublasLtMatmulDescDestroy(Desc *d) { return delete d, OK; }
int cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (type != F32 && type != F16 && type != BF16) return UNSUPPORTED;
  return *l = new Layout{type, rows, cols, ld}, OK;
}
int cublasLtMatrixLayoutDestroy(Layout *l) { return delete l, OK; }
int cublasLtMatmulPreferenceCreate(void **p) { return *p = new int, OK; }
int cublasLtMatmulPreferenceSetAttribute(void *, int, const void *, uint64_t) { return OK; }
int cublasLtMatmulPreferenceDestroy(int *p) { return delete p, OK; }
int cublasLtMatmulAlgoGetHeuristic(void *, Desc *d, Layout *w, Layout *x, Layout *c, Layout *y, void *, int, void *, int *found) {
  if (!d->transposed || w->rows != x->rows || y->rows != w->cols || y->cols != x->cols || c->rows != y->rows) return INVALID;
  return *found = 1, OK;
}
int cublasLtMatmul(void *, Desc *d, const float *alpha, uint64_t w, Layout *lw, uint64_t x, Layout *lx, const float *beta, uint64_t, Layout *,
                   uint64_t y, Layout *ly, void *, uint64_t, uint64_t, void *stream) {
  Desc desc = *d;
  Layout a = *lw, b = *lx, c = *ly;
  float f = *alpha, g = *beta;
  emulated_queue(stream, [=] { multiply(desc, a, b, c, f, g, w, x, y); });
  return OK;
}

} // extern "C"
