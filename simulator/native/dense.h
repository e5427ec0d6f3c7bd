// A linear layer, with or without ReLU. Weights are kept as [input][output], then the bias.
#pragma once

#include "layer.h"

namespace meshfl {

template <class T>
class Dense : public Layer<T> {
  public:
    // positions: of an image whose channels come last here, but first in the module.
    Dense(long inputs, long outputs, bool relu, long positions, long batch)
        : relu_(relu),
          positions_(positions),
          channels_(inputs / positions),
          row_(Padded(outputs)),
          by_batch_(Padded(batch)),
          inputs_apart_(Places(kRows, 1)),
          rows_(Places(std::max(kRows, batch), row_)),
          columns_(Places(kRows, by_batch_)),
          swapped_dy_(outputs * by_batch_),
          swapped_dx_(kRows * by_batch_) {
        this->inputs = inputs, this->outputs = outputs;
        this->flat = (inputs + 1) * outputs, this->stored = (inputs + 1) * row_;
    }

    void Load(const T* flat, T* w) const override {
        if (this->outputs != row_) Zero(w, this->stored);
        for (long c = 0; c < (positions_ > 1 ? channels_ : 1); ++c)
            Transpose(flat + c * positions_, this->inputs, w + c * row_, Step(), this->outputs,
                      Together());
        std::memcpy(Bias(w), flat + this->inputs * this->outputs, this->outputs * sizeof(T));
    }

    void Read(const T* w, T* flat) const override {
        for (long c = 0; c < (positions_ > 1 ? channels_ : 1); ++c)
            Transpose(w + c * row_, Step(), flat + c * positions_, this->inputs, Together(),
                      this->outputs);
        std::memcpy(flat + this->inputs * this->outputs, Bias(w), this->outputs * sizeof(T));
    }

    void Forward(const T* w, Samples<T> x, Samples<T> y, long batch) override {
        for (long i = 0; i < batch; ++i) std::memcpy(y[i], Bias(w), row_ * sizeof(T));
        samples_.resize(batch);
        for (long i = 0; i < batch; ++i) samples_[i] = i * x.stride;
        Multiply<T>({batch, this->outputs, 1, this->inputs, x.numbers, samples_.data(), &kHere, 1, w,
                     row_, y.numbers, rows_.data()});
        if (!relu_) return;  // else a NaN stays one, as in torch
        for (long i = 0; i < batch * row_; ++i) y.numbers[i] = y.numbers[i] <= 0 ? T(0) : y.numbers[i];
    }

    void Backward(const T* w, const Goal<T>& goal, Samples<T> x, Samples<T> y, Samples<T> dy,
                  Samples<T> dx, long batch) override {
        if (relu_)
            for (long i = 0; i < batch * row_; ++i)
                dy.numbers[i] = y.numbers[i] <= 0 ? T(0) : dy.numbers[i];
        if (dx.numbers) Transpose(dy.numbers, row_, (T*)swapped_dy_, by_batch_, batch, this->outputs);
        for (long i = 0; i < this->inputs; i += kRows) {  // weights come by only once
            long rows = std::min(kRows, this->inputs - i);
            if (dx.numbers) HandOn(w + i * row_, {dx.numbers + i, dx.stride}, rows, batch);
            Multiply<T>({rows, this->outputs, 1, batch, x.numbers + i, inputs_apart_.data(), &kHere,
                         x.stride, dy.numbers, row_, goal.Begin(i * row_, rows * row_), rows_.data()});
        }
        T* bias = goal.Begin(this->inputs * row_, row_);
        for (long i = 0; i < batch; ++i) Add(bias, dy[i], row_);
    }

  private:
    static constexpr long kRows = 32;

    void HandOn(const T* w, Samples<T> dx, long rows, long batch) {
        Zero((T*)swapped_dx_, rows * by_batch_);
        Multiply<T>({rows, batch, 1, this->outputs, w, rows_.data(), &kHere, 1, swapped_dy_, by_batch_,
                     swapped_dx_, columns_.data()});
        Transpose((T*)swapped_dx_, by_batch_, dx.numbers, dx.stride, rows, batch);
    }

    template <class P>
    P* Bias(P* w) const {
        return w + this->inputs * row_;
    }
    // Rows of w that lie a channel's positions apart; without an image, all rows.
    long Step() const { return positions_ > 1 ? channels_ * row_ : row_; }
    long Together() const { return positions_ > 1 ? positions_ : this->inputs; }

    bool relu_;
    long positions_, channels_, row_, by_batch_;
    std::vector<long> inputs_apart_, rows_, columns_, samples_;
    Room<T> swapped_dy_, swapped_dx_;
};

}  // namespace meshfl
