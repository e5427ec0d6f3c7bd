// Products of matrices, small enough for the caches nearest to a core.
//
// Each element of the result is summed in the order of k, one fused multiply-add after the other, in
// pieces of a fixed length that are added to what it held before: its bits depend neither on the
// tiles nor on the processor, and a small sum is not rounded as coarsely as a large weight.
#pragma once

#include <algorithm>

#include "vector.h"

namespace meshfl {

// c[crow(m) + n] += sum over k of a[arow(m) + ak(k)] * b[k * b_stride + n]
//
// with k = (k1, k2) and ak = outer[k1] + k2 * inner. Rows of b and c must have room for whole
// vectors; what lies there beyond n is overwritten.
template <class T>
struct Product {
    long m, n, k1, k2;
    const T* a;
    const long* a_rows;
    const long* outer;
    long inner;
    const T* b;
    long b_stride;
    T* c;
    const long* c_rows;
};

template <class T, int M, int N>
inline void Tile(const Product<T>& p, const long* a_rows, const long* c_rows, long k1, long k2,
                 const long* outer, long first, const T* b, T* c) {
    const T* a[M];
    Vector<T> sum[M][N];
    for (int i = 0; i < M; ++i) {
        a[i] = p.a + a_rows[i] + first * p.inner;
        for (int j = 0; j < N; ++j) sum[i][j] = Vector<T>{};
    }
    for (long u = 0; u < k1; ++u) {
        long at = outer[u];
        for (long v = 0; v < k2; ++v, at += p.inner, b += p.b_stride) {
            Vector<T> right[N];
            for (int j = 0; j < N; ++j) right[j] = Kept(Load(b + j * kLanes<T>));
            for (int i = 0; i < M; ++i) {
                Vector<T> left = Same<T>(a[i][at]);
                for (int j = 0; j < N; ++j) sum[i][j] = Fma(left, right[j], sum[i][j]);
            }
        }
    }
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            T* to = c + c_rows[i] + j * kLanes<T>;
            Store(to, Load(to) + sum[i][j]);
        }
}

#if defined(__AVX512F__)
constexpr int kRows[] = {0, 12, 12, 8};  // of a tile, by its columns in vectors
#else
constexpr int kRows[] = {0, 8, 6, 4};
#endif

template <class T, int M, int N>
void Rows(const Product<T>& p, long from, long k1, long k2, const long* outer, long first,
          const T* b, T* c) {
    for (; from + M <= p.m; from += M)
        Tile<T, M, N>(p, p.a_rows + from, p.c_rows + from, k1, k2, outer, first, b, c);
    if constexpr (M > 1)
        if (from < p.m) Rows<T, (M > 2 ? M / 2 : 1), N>(p, from, k1, k2, outer, first, b, c);
}

template <class T>
void Columns(const Product<T>& p, long k1, long k2, const long* outer, long first, long before) {
    const T* b = p.b + before * p.b_stride;
    T* c = p.c;
    for (long left = (p.n + kLanes<T> - 1) / kLanes<T>; left > 0;) {
        int now = left == 4 ? 2 : std::min(left, 3L);
        if (now == 3) Rows<T, kRows[3], 3>(p, 0, k1, k2, outer, first, b, c);
        if (now == 2) Rows<T, kRows[2], 2>(p, 0, k1, k2, outer, first, b, c);
        if (now == 1) Rows<T, kRows[1], 1>(p, 0, k1, k2, outer, first, b, c);
        b += now * kLanes<T>, c += now * kLanes<T>, left -= now;
    }
}

// In pieces along k, so that the columns of b that a tile reads stay near while rows go by.
template <class T>
void Multiply(const Product<T>& p) {
    constexpr long kPiece = 112;
    if (p.k1 == 1) {
        long pieces = (p.k2 + kPiece - 1) / kPiece, piece = (p.k2 + pieces - 1) / pieces;
        for (long first = 0; first < p.k2; first += piece)
            Columns(p, 1, std::min(piece, p.k2 - first), p.outer, first, first);
        return;
    }
    long several = std::max(1L, kPiece / p.k2);
    for (long first = 0; first < p.k1; first += several)
        Columns(p, std::min(several, p.k1 - first), p.k2, p.outer + first, 0, first * p.k2);
}

}  // namespace meshfl
