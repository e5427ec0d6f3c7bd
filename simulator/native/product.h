// Products of matrices, small enough for the caches nearest to a core.
//
// Each element of the result is summed in the order of k, one fused multiply-add after the other, in
// pieces of a fixed length that are added to what it held before: its bits depend neither on the
// tiles nor on the processor, and a small sum is not rounded as coarsely as a large weight.
#pragma once

#include <algorithm>
#include <iterator>

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
#pragma GCC unroll 16  // here and below: GCC would keep the sums in memory
    for (int i = 0; i < M; ++i) {
        a[i] = p.a + a_rows[i] + first * p.inner;
        for (int j = 0; j < N; ++j) sum[i][j] = Vector<T>{};
    }
    for (long u = 0; u < k1; ++u) {
        long at = outer[u];
        for (long v = 0; v < k2; ++v, at += p.inner, b += p.b_stride) {
            Vector<T> right[N];
            for (int j = 0; j < N; ++j) right[j] = Kept(Load(b + j * kLanes<T>));
#pragma GCC unroll 16
            for (int i = 0; i < M; ++i) {
                Vector<T> left = Same<T>(a[i][at]);
                for (int j = 0; j < N; ++j) sum[i][j] = Fma(left, right[j], sum[i][j]);
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            T* to = c + c_rows[i] + j * kLanes<T>;
            Store(to, Load(to) + sum[i][j]);
        }
}

// The most rows of a tile, by its columns in vectors: what registers hold.
#if defined(__AVX512F__)
constexpr int kRows[] = {0, 12, 10, 8, 6};
#else
constexpr int kRows[] = {0, 8, 6, 4};
#endif
constexpr int kColumns = std::size(kRows) - 1;

template <class T, int M, int N>
void Height(long rows, const Product<T>& p, const long* a_rows, const long* c_rows, long k1, long k2,
            const long* outer, long first, const T* b, T* c) {
    if constexpr (M > 1)
        if (rows < M)
            return Height<T, M - 1, N>(rows, p, a_rows, c_rows, k1, k2, outer, first, b, c);
    Tile<T, M, N>(p, a_rows, c_rows, k1, k2, outer, first, b, c);
}

// Tiles are as equal as can be, here and in Columns: a small one waits for its own sums.
template <class T, int N>
void Width(long columns, const Product<T>& p, long k1, long k2, const long* outer, long first,
           const T* b, T* c) {
    if constexpr (N > 1)
        if (columns < N) return Width<T, N - 1>(columns, p, k1, k2, outer, first, b, c);
    long tiles = (p.m + kRows[N] - 1) / kRows[N];
    for (long from = 0; tiles > 0; --tiles) {
        long rows = (p.m - from + tiles - 1) / tiles;
        Height<T, kRows[N], N>(rows, p, p.a_rows + from, p.c_rows + from, k1, k2, outer, first, b, c);
        from += rows;
    }
}

template <class T>
void Columns(const Product<T>& p, long k1, long k2, const long* outer, long first, long before) {
    const T* b = p.b + before * p.b_stride;
    T* c = p.c;
    long vectors = (p.n + kLanes<T> - 1) / kLanes<T>;
    for (long panels = (vectors + kColumns - 1) / kColumns; panels > 0; --panels) {
        long columns = (vectors + panels - 1) / panels;
        Width<T, kColumns>(columns, p, k1, k2, outer, first, b, c);
        b += columns * kLanes<T>, c += columns * kLanes<T>, vectors -= columns;
    }
}

// In pieces along k. Where it has two parts there tend to be many rows: the columns of b that a tile
// reads then stay near while they go by.
template <class T>
void Multiply(const Product<T>& p) {
    if (p.k1 == 1) {
        constexpr long kPiece = 400;
        long pieces = (p.k2 + kPiece - 1) / kPiece, piece = (p.k2 + pieces - 1) / pieces;
        for (long first = 0; first < p.k2; first += piece)
            Columns(p, 1, std::min(piece, p.k2 - first), p.outer, first, first);
        return;
    }
    constexpr long kPiece = 112;
    long several = std::max(1L, kPiece / p.k2);
    for (long first = 0; first < p.k1; first += several)
        Columns(p, std::min(several, p.k1 - first), p.k2, p.outer + first, 0, first * p.k2);
}

}  // namespace meshfl
