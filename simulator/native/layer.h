// What layers have in common: where their numbers lie, and how a step moves their parameters.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "product.h"

namespace meshfl {

// A row with room for whole vectors of any processor: the layout is the same on all of them.
inline long Padded(long count) { return (count + 15) / 16 * 16; }

// Zeros, aligned to lines of the cache; a vector may be read or written across its end.
template <class T>
class Room {
  public:
    explicit Room(long count) {
        long bytes = Padded(count + 16) * sizeof(T);
        void* got = std::aligned_alloc(64, bytes);
        if (!got) throw std::bad_alloc();
        std::memset(got, 0, bytes);
        numbers_.reset(static_cast<T*>(got));
    }
    operator T*() const { return numbers_.get(); }

  private:
    struct Free {
        void operator()(T* numbers) const { std::free(numbers); }
    };
    std::unique_ptr<T, Free> numbers_;
};

// 0, stride, 2 * stride, ...
inline std::vector<long> Places(long count, long stride) {
    std::vector<long> places(count);
    for (long i = 0; i < count; ++i) places[i] = i * stride;
    return places;
}

constexpr long kHere = 0;

template <class T>
void Zero(T* numbers, long count) {
    std::memset(numbers, 0, count * sizeof(T));
}

template <class T>
void Add(T* to, const T* from, long count) {
    for (long i = 0; i < count; ++i) to[i] += from[i];
}

// to[j][i] = from[i][j], in blocks that the nearest cache holds.
template <class T>
void Transpose(const T* from, long from_stride, T* to, long to_stride, long rows, long columns) {
    constexpr long kBlock = 8;
    for (long i0 = 0; i0 < rows; i0 += kBlock)
        for (long j0 = 0; j0 < columns; j0 += kBlock) {
            long i1 = std::min(i0 + kBlock, rows), j1 = std::min(j0 + kBlock, columns);
            if (i1 - i0 == kBlock && j1 - j0 == kBlock) {
                T block[kBlock][kBlock];
                for (long i = 0; i < kBlock; ++i)
                    std::memcpy(block[i], from + (i0 + i) * from_stride + j0, sizeof block[i]);
                for (long j = 0; j < kBlock; ++j)
                    for (long i = 0; i < kBlock; ++i) to[(j0 + j) * to_stride + i0 + i] = block[i][j];
            } else {
                for (long j = j0; j < j1; ++j)
                    for (long i = i0; i < i1; ++i) to[j * to_stride + i] = from[i * from_stride + j];
            }
        }
}

// Where a layer's gradients are added: to a place of their own, or, scaled by what the step makes
// of them, to the parameters themselves, which first become keep * w + drift.
template <class T>
struct Goal {
    T* parameters;
    T* gradient;
    const T* drift;
    T keep;

    T* Begin(long first, long count) const {
        if (gradient) {
            Zero(gradient + first, count);
            return gradient + first;
        }
        for (long i = first; drift && i < first + count; ++i)
            parameters[i] = std::fma(keep, parameters[i], drift[i]);
        return parameters + first;
    }
};

// Samples of a batch, a row each.
template <class T>
struct Samples {
    T* numbers;
    long stride;
    T* operator[](long sample) const { return numbers + sample * stride; }
};

template <class T>
class Layer {
  public:
    virtual ~Layer() = default;
    long inputs = 0, outputs = 0;  // numbers of a sample
    long flat = 0;                 // parameters, as the module has them in one vector
    long stored = 0;               // numbers in which they are kept here

    virtual void Load(const T* flat, T* w) const = 0;
    virtual void Read(const T* w, T* flat) const = 0;
    virtual void Forward(const T* w, Samples<T> x, Samples<T> y, long batch) = 0;
    // From the outputs' gradient, which is overwritten, to the inputs'; dx.numbers: null if nobody
    // needs it. w is goal.parameters, which may move once dx is found.
    virtual void Backward(const T* w, const Goal<T>& goal, Samples<T> x, Samples<T> y,
                          Samples<T> dy, Samples<T> dx, long batch) = 0;
};

}  // namespace meshfl
