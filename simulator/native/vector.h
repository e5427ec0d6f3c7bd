// As many numbers as one register of this processor holds.
//
// Every product is added by a fused multiply-add, written out, and the compiler may make none of
// its own (-ffp-contract=off): so an element's bits do not depend on how many lanes there are.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace meshfl {

#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
    typedef float type __attribute__((vector_size(kRegisterBytes)));
    typedef int bits __attribute__((vector_size(kRegisterBytes)));
};
template <>
struct VectorOf<double> {
    typedef double type __attribute__((vector_size(kRegisterBytes)));
    typedef long long bits __attribute__((vector_size(kRegisterBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
using Bits = typename VectorOf<T>::bits;

template <class T>
constexpr int kLanes = kRegisterBytes / sizeof(T);

template <class T>
inline Vector<T> Load(const T* from) {
    Vector<T> v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

template <class T>
inline void Store(T* to, Vector<T> v) {
    std::memcpy(to, &v, sizeof v);
}

// The first lanes only, where others' numbers follow.
template <class T>
inline void Store(T* to, Vector<T> v, long lanes) {
    if (lanes >= kLanes<T>) return Store(to, v);
    for (long i = 0; i < lanes; ++i) to[i] = v[i];
}

template <class T>
inline Vector<T> Same(T number) {
    return number - Vector<T>{};
}

// In a register: compilers like to load a number again for each of its products.
template <class V>
inline V Kept(V v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#endif
    return v;
}

// a * b + c, rounded once.
#if defined(__AVX512F__)
inline Vector<float> Fma(Vector<float> a, Vector<float> b, Vector<float> c) {
    return (Vector<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Vector<double> Fma(Vector<double> a, Vector<double> b, Vector<double> c) {
    return (Vector<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__AVX2__) && defined(__FMA__)
inline Vector<float> Fma(Vector<float> a, Vector<float> b, Vector<float> c) {
    return (Vector<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
inline Vector<double> Fma(Vector<double> a, Vector<double> b, Vector<double> c) {
    return (Vector<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#else
template <class V>
inline V Fma(V a, V b, V c) {
    for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) c[i] = std::fma(a[i], b[i], c[i]);
    return c;
}
#endif

// e to the x, to the last bit or two; a NaN stays one.
template <class T>
inline Vector<T> Exp(Vector<T> x) {
    constexpr bool kFloat = sizeof(T) == 4;
    constexpr T kMost = kFloat ? 88 : 709, kLog2E = 1.4426950408889634;
    constexpr T kLn2High = kFloat ? 0.693145752 : 0.693147180369123816490;
    constexpr T kLn2Low = kFloat ? 1.42860677e-6 : 1.90821492927058770002e-10;
    constexpr T kRound = kFloat ? 12582912.0 : 6755399441055744.0;  // 1.5 * 2^(mantissa bits)
    constexpr int kDegree = kFloat ? 6 : 13, kMantissa = kFloat ? 23 : 52;
    constexpr double kFactors[] = {1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040,
        1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800};
    x = x < Same<T>(-kMost) ? Same<T>(-kMost) : x;
    x = x > Same<T>(kMost) ? Same<T>(kMost) : x;
    Vector<T> shifted = Fma(x, Same<T>(kLog2E), Same<T>(kRound));
    Vector<T> n = shifted - kRound;
    Vector<T> r = Fma(n, Same<T>(-kLn2Low), Fma(n, Same<T>(-kLn2High), x));
    Vector<T> sum = Same<T>(kFactors[kDegree]);
    for (int k = kDegree; k > 0; --k) sum = Fma(sum, r, Same<T>(kFactors[k - 1]));
    Bits<T> power = (Bits<T>)shifted << kMantissa;  // of n: of kRound, nothing is left
    return (Vector<T>)((Bits<T>)sum + power);
}

template <class T>
inline Vector<T> Sigmoid(Vector<T> x) {
    return T(1) / (T(1) + Exp<T>(-x));
}

template <class T>
inline Vector<T> Tanh(Vector<T> x) {
    return T(1) - T(2) / (T(1) + Exp<T>(x + x));
}

}  // namespace meshfl
