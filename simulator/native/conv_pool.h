// Convolution, 2x2 max-pool and ReLU. Images have their channels last.
//
// A pool hands its gradient on to one of four places, and ReLU to none if it is closed: so the
// backward pass visits only places that have one, a fourth or less, and adds rows of the kernel
// there. Weights are kept as [output][ky][kx and channel, filled up with zeros], then the bias.
#pragma once

#include <cstdint>

#include "layer.h"

namespace meshfl {

template <class T>
class ConvPool : public Layer<T> {
  public:
    // is_first: inputs come with their channels first, as data have them.
    ConvPool(long channels, long height, long width, long outputs, long kernel, long padding,
             bool is_first, long batch)
        : channels_(channels),
          height_(height),
          width_(width),
          filters_(outputs),
          kernel_(kernel),
          padding_(padding),
          is_first_(is_first),
          row_(Padded(outputs)),
          run_(kernel * channels),
          weights_(kernel * Padded(run_)),
          image_row_((width + 2 * padding) * channels),
          pooled_width_((width + 2 * padding - kernel + 1) / 2),
          pooled_((height + 2 * padding - kernel + 1) / 2 * pooled_width_),
          image_((height + 2 * padding) * image_row_),
          kernel_rows_(Places(kernel, image_row_)),
          products_(Places(4 * pooled_, row_)),
          by_output_(kernel * run_ * row_),
          places_(4 * pooled_ * row_),
          images_(batch * image_),
          gradients_(is_first ? 0 : batch * image_),
          chosen_(batch * pooled_ * outputs),
          offsets_(batch * pooled_ + 1),
          values_(batch * pooled_ + 1) {
        this->inputs = channels * height * width, this->outputs = pooled_ * outputs;
        this->flat = outputs * (kernel * run_ + 1), this->stored = outputs * weights_ + row_;
        for (long p = 0; p < pooled_; ++p)
            for (long q = 0; q < 4; ++q) windows_.push_back(Corner(p, q));
    }

    void Load(const T* flat, T* w) const override {
        Zero(w, this->stored);
        Each([&](long here, long there) { w[here] = flat[there]; });
        std::memcpy(Bias(w), flat + filters_ * kernel_ * run_, filters_ * sizeof(T));
    }

    void Read(const T* w, T* flat) const override {
        Each([&](long here, long there) { flat[there] = w[here]; });
        std::memcpy(flat + filters_ * kernel_ * run_, Bias(w), filters_ * sizeof(T));
    }

    void Forward(const T* w, Samples<T> x, Samples<T> y, long batch) override {
        for (long ky = 0; ky < kernel_; ++ky)
            Transpose(w + ky * Padded(run_), weights_, by_output_ + ky * run_ * row_, row_, filters_,
                      run_);
        for (long b = 0; b < batch; ++b) {
            T* image = images_ + b * image_;
            TakeIn(x[b], image);
            Zero((T*)places_, 4 * pooled_ * row_);
            Multiply<T>({4 * pooled_, filters_, kernel_, run_, image, windows_.data(),
                         kernel_rows_.data(), 1, by_output_, row_, places_, products_.data()});
            Pool(Bias(w), y[b], chosen_.data() + b * this->outputs);
        }
    }

    void Backward(const T* w, const Goal<T>& goal, Samples<T>, Samples<T>, Samples<T> dy,
                  Samples<T> dx, long batch) override {
        if (dx.numbers) HandOn(w, dy, dx, batch);
        T* to = goal.Begin(0, this->stored);
        for (long f = 0; f < filters_; ++f) {
            long count = 0;
            T sum = 0;
            for (long b = 0; b < batch; ++b) count = Gather(f, b, dy[b], b * image_, count, sum);
            Bias(to)[f] += sum;
            AddWindows(count, to + f * weights_);
            for (long ky = 0; ky < kernel_; ++ky)
                Zero(to + f * weights_ + ky * Padded(run_) + run_, Padded(run_) - run_);
        }
    }

  private:
    static constexpr int8_t kClosed = -1;

    template <class P>
    P* Bias(P* w) const {
        return w + filters_ * weights_;
    }

    // In the padded image: the first number below the kernel when it yields place q of pool p.
    long Corner(long p, long q) const {
        long y = 2 * (p / pooled_width_) + q / 2, x = 2 * (p % pooled_width_) + q % 2;
        return y * image_row_ + x * channels_;
    }

    // Places of a weight here and in the module.
    template <class F>
    void Each(F visit) const {
        for (long f = 0; f < filters_; ++f)
            for (long ky = 0; ky < kernel_; ++ky)
                for (long i = 0; i < run_; ++i) {
                    long kx = i / channels_, c = i % channels_;
                    visit(f * weights_ + ky * Padded(run_) + i,
                          ((f * channels_ + c) * kernel_ + ky) * kernel_ + kx);
                }
    }

    void TakeIn(const T* x, T* image) const {
        for (long y = 0; y < height_; ++y) {
            T* to = image + (y + padding_) * image_row_ + padding_ * channels_;
            if (is_first_ && channels_ > 1) {
                for (long c = 0; c < channels_; ++c)
                    for (long i = 0; i < width_; ++i)
                        to[i * channels_ + c] = x[(c * height_ + y) * width_ + i];
            } else {
                std::memcpy(to, x + y * width_ * channels_, width_ * channels_ * sizeof(T));
            }
        }
    }

    // Of equal places the first is chosen, and a NaN before all, as torch does.
    void Pool(const T* bias, T* y, int8_t* chosen) const {
        for (long p = 0; p < pooled_; ++p, y += filters_, chosen += filters_) {
            const T* four = places_ + 4 * p * row_;
            for (long f = 0; f < filters_; f += kLanes<T>) {
                Vector<T> best = meshfl::Load(four + f);
                Bits<T> place{};
                for (int q = 1; q < 4; ++q) {
                    Vector<T> next = meshfl::Load(four + q * row_ + f);
                    place = next > best || next != next ? Bits<T>{} + q : place;
                    best = next > best || next != next ? next : best;
                }
                best += meshfl::Load(bias + f);
                place = best <= 0 ? Bits<T>{} + kClosed : place;
                best = best <= 0 ? Vector<T>{} : best;
                long lanes = std::min<long>(kLanes<T>, filters_ - f);
                Store(y + f, best, lanes);
                for (long i = 0; i < lanes; ++i) chosen[f + i] = place[i];
            }
        }
    }

    // Where filter f of sample b has a gradient: appended to offsets_ and values_.
    long Gather(long f, long b, const T* dy, long first, long count, T& sum) {
        const int8_t* chosen = chosen_.data() + b * this->outputs + f;
        for (long p = 0; p < pooled_; ++p) {
            long q = chosen[p * filters_];
            T value = q == kClosed ? T(0) : dy[p * filters_ + f];
            offsets_[count] = first + windows_[4 * p + (q & 3)];
            values_[count] = value;
            sum += value;
            count += value != 0;
        }
        return count;
    }

    // to += sum of values times the rows of the kernel's window at their offsets; and something
    // beyond the end of rows.
    void AddWindows(long count, T* to) const {
        long vectors = (run_ + kLanes<T> - 1) / kLanes<T>;
        if (vectors == 1) return AddParts<6>(count, 0, kernel_, image_row_, Padded(run_), to);
        for (long ky = 0; ky < kernel_; ++ky)
            AddParts<13>(count, ky * image_row_, vectors, kLanes<T>, kLanes<T>, to + ky * Padded(run_));
    }

    // Vectors that lie apart from each other by these distances, as many at once as registers hold.
    template <int Most>
    void AddParts(long count, long from, long vectors, long from_apart, long to_apart, T* to) const {
        for (; vectors >= Most; vectors -= Most, from += Most * from_apart, to += Most * to_apart)
            AddPart<Most>(count, from, from_apart, to_apart, to);
        if constexpr (Most > 1)
            if (vectors) AddParts<Most - 1>(count, from, vectors, from_apart, to_apart, to);
    }

    template <int N>
    void AddPart(long count, long from, long from_apart, long to_apart, T* to) const {
        Vector<T> sum[N];
        for (int j = 0; j < N; ++j) sum[j] = Vector<T>{};
        const T* images = images_ + from;
        for (long e = 0; e < count; ++e) {
            Vector<T> value = Same<T>(values_[e]);
            const T* window = images + offsets_[e];
            for (int j = 0; j < N; ++j)
                sum[j] = Fma(value, meshfl::Load(window + j * from_apart), sum[j]);
        }
        for (int j = 0; j < N; ++j) {
            T* there = to + j * to_apart;
            Store(there, meshfl::Load(there) + sum[j]);
        }
    }

    // The inputs' gradient, two samples in turn: what one has written is not read at once.
    void HandOn(const T* w, Samples<T> dy, Samples<T> dx, long batch) {
        Zero((T*)gradients_, batch * image_);
        for (long b = 0; b < batch; b += 2) {
            for (long f = 0; f < filters_; ++f) {
                T sum = 0;
                long count = Gather(f, b, dy[b], b * image_, 0, sum);
                if (b + 1 < batch) count = Gather(f, b + 1, dy[b + 1], (b + 1) * image_, count, sum);
                Spread(w + f * weights_, count);
            }
        }
        for (long b = 0; b < batch; ++b)
            for (long y = 0; y < height_; ++y)
                std::memcpy(dx[b] + y * width_ * channels_,
                            gradients_ + b * image_ + (y + padding_) * image_row_ +
                                padding_ * channels_,
                            width_ * channels_ * sizeof(T));
    }

    void Spread(const T* weights, long count) {
        for (long e = 0; e < count; ++e) {
            long half = (count + 1) / 2, one = e % 2 ? half + e / 2 : e / 2;
            Vector<T> value = Same<T>(values_[one]);
            T* image = gradients_ + offsets_[one];
            for (long ky = 0; ky < kernel_; ++ky, image += image_row_) {
                const T* run = weights + ky * Padded(run_);
                for (long at = 0; at < run_; at += kLanes<T>)  // zeros change nothing beyond its end
                    Store(image + at, Fma(value, meshfl::Load(run + at), meshfl::Load(image + at)));
            }
        }
    }

    long channels_, height_, width_, filters_, kernel_, padding_;
    bool is_first_;
    long row_, run_, weights_, image_row_, pooled_width_, pooled_, image_;
    std::vector<long> windows_, kernel_rows_, products_;
    Room<T> by_output_, places_, images_, gradients_;
    std::vector<int8_t> chosen_;
    std::vector<long> offsets_;
    std::vector<T> values_;
};

}  // namespace meshfl
