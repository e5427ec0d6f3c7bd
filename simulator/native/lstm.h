// A layer of an LSTM, of numbers or of an embedding's rows; all steps of its output, or the last.
//
// Kept are the embedding as [symbol][feature], the weights as [feature][gates] and [hidden][gates],
// and both biases. Gates come in torch's order: input, forget, cell, output.
#pragma once

#include "layer.h"

namespace meshfl {

template <class T>
class Lstm : public Layer<T> {
  public:
    // symbols: 0 if the inputs are numbers.
    Lstm(long time, long features, long hidden, long symbols, bool last, long batch)
        : time_(time),
          features_(features),
          hidden_(hidden),
          symbols_(symbols),
          last_(last),
          gates_(4 * hidden),
          gates_row_(Padded(gates_)),
          hidden_row_(Padded(hidden)),
          features_row_(Padded(features)),
          one_by_one_(Places(std::max(features, hidden), 1)),
          by_gates_(Places(std::max({batch, features, hidden, symbols}), gates_row_)),
          by_hidden_(Places(batch, hidden_row_)),
          by_features_(Places(std::max(batch, symbols), features_row_)),
          embedding_(symbols * features_row_),
          table_(symbols * gates_row_),
          table_gradient_(symbols * gates_row_),
          bias_(gates_row_),
          input_back_(gates_ * features_row_),
          hidden_back_(gates_ * hidden_row_),
          slopes_(gates_row_),
          open_(time * batch * gates_row_),
          cells_(time * batch * hidden_row_),
          squashed_(time * batch * hidden_row_),
          states_(time * batch * hidden_row_),
          gates_gradient_(kTogether * batch * gates_row_),
          state_gradient_(batch * hidden_row_),
          cell_gradient_(batch * hidden_row_),
          input_gradient_(batch * features_row_) {
        this->inputs = time * (symbols ? 1 : features);
        this->outputs = hidden * (last ? 1 : time);
        this->flat = symbols * features + gates_ * (features + hidden + 2);
        this->stored = symbols * features_row_ + gates_row_ * (features + hidden + 2);
        for (long i = 0; i < gates_row_; ++i) slopes_[i] = i / hidden == 2 ? 2 : 1;
    }

    void Load(const T* flat, T* w) const override {
        Zero(w, this->stored);
        for (long s = 0; s < symbols_; ++s)
            std::memcpy(w + s * features_row_, flat + s * features_, features_ * sizeof(T));
        flat += symbols_ * features_;
        Transpose(flat, features_, InputWeights(w), gates_row_, gates_, features_);
        flat += gates_ * features_;
        Transpose(flat, hidden_, HiddenWeights(w), gates_row_, gates_, hidden_);
        flat += gates_ * hidden_;
        for (long i = 0; i < 2; ++i)
            std::memcpy(Biases(w) + i * gates_row_, flat + i * gates_, gates_ * sizeof(T));
    }

    void Read(const T* w, T* flat) const override {
        for (long s = 0; s < symbols_; ++s)
            std::memcpy(flat + s * features_, w + s * features_row_, features_ * sizeof(T));
        flat += symbols_ * features_;
        Transpose(InputWeights(w), gates_row_, flat, features_, features_, gates_);
        flat += gates_ * features_;
        Transpose(HiddenWeights(w), gates_row_, flat, hidden_, hidden_, gates_);
        flat += gates_ * hidden_;
        for (long i = 0; i < 2; ++i)
            std::memcpy(flat + i * gates_, Biases(w) + i * gates_row_, gates_ * sizeof(T));
    }

    void Forward(const T* w, Samples<T> x, Samples<T> y, long batch) override {
        KeepForBackward(w);
        samples_.resize(batch);
        for (long b = 0; b < batch; ++b) samples_[b] = b * x.stride;
        for (long t = 0; t < time_; ++t) {
            T* open = Open(t, batch);
            Begin(w, x, batch, t, open);
            if (t > 0)
                Multiply<T>({batch, gates_, 1, hidden_, State(t - 1, batch), by_hidden_.data(), &kHere,
                             1, HiddenWeights(w), gates_row_, open, by_gates_.data()});
            for (long b = 0; b < batch; ++b)
                Squash(open + b * gates_row_, Open(t + 1, batch) + b * gates_row_);
            for (long b = 0; b < batch; ++b) {
                Step(t, b, batch);
                if (!last_ || t == time_ - 1)
                    std::memcpy(y[b] + (last_ ? 0 : t * hidden_), State(t, batch) + b * hidden_row_,
                                hidden_ * sizeof(T));
            }
        }
    }

    void Backward(const T*, const Goal<T>& goal, Samples<T> x, Samples<T>, Samples<T> dy,
                  Samples<T> dx, long batch) override {
        T* to = goal.Begin(0, this->stored);
        Zero((T*)state_gradient_, batch * hidden_row_);
        Zero((T*)cell_gradient_, batch * hidden_row_);
        Zero((T*)table_gradient_, symbols_ * gates_row_);
        long slot = 0;
        for (long t = time_ - 1; t >= 0; --t) {
            T* dz = gates_gradient_ + slot * batch * gates_row_;
            for (long b = 0; b < batch; ++b) {
                if (!last_ || t == time_ - 1)
                    Add(state_gradient_ + b * hidden_row_, dy[b] + (last_ ? 0 : t * hidden_), hidden_);
                StepBack(t, b, batch, dz + b * gates_row_);
            }
            Zero((T*)state_gradient_, batch * hidden_row_);
            if (t > 0)
                Multiply<T>({batch, hidden_, 1, gates_, dz, by_gates_.data(), &kHere, 1, hidden_back_,
                             hidden_row_, state_gradient_, by_hidden_.data()});
            if (dx.numbers) HandOn(dz, dx, batch, t);
            if (++slot == kTogether || t == 0) {
                Collect(to, x, batch, t, slot);
                slot = 0;
            }
        }
        if (symbols_) CollectTable(to);
    }

  private:
    static constexpr long kTogether = 5;  // steps whose products with the gates' gradients are one

    template <class P>
    P* InputWeights(P* w) const {
        return w + symbols_ * features_row_;
    }
    template <class P>
    P* HiddenWeights(P* w) const {
        return InputWeights(w) + features_ * gates_row_;
    }
    template <class P>
    P* Biases(P* w) const {
        return HiddenWeights(w) + hidden_ * gates_row_;
    }
    T* State(long t, long batch) const { return states_ + t * batch * hidden_row_; }
    T* Open(long t, long batch) const { return open_ + t * batch * gates_row_; }

    void KeepForBackward(const T* w) {
        std::memcpy((T*)embedding_, w, symbols_ * features_row_ * sizeof(T));
        Transpose(InputWeights(w), gates_row_, (T*)input_back_, features_row_, features_, gates_);
        Transpose(HiddenWeights(w), gates_row_, (T*)hidden_back_, hidden_row_, hidden_, gates_);
        for (long i = 0; i < gates_row_; ++i) bias_[i] = Biases(w)[i] + Biases(w)[gates_row_ + i];
        for (long s = 0; s < symbols_; ++s)
            std::memcpy(table_ + s * gates_row_, bias_, gates_row_ * sizeof(T));
        if (symbols_)
            Multiply<T>({symbols_, gates_, 1, features_, embedding_, by_features_.data(), &kHere, 1,
                         InputWeights(w), gates_row_, table_, by_gates_.data()});
    }

    // The gates' sums without what comes from the state before.
    void Begin(const T* w, Samples<T> x, long batch, long t, T* sums) {
        for (long b = 0; b < batch; ++b) {
            const T* from = symbols_ ? table_ + long(x[b][t]) * gates_row_ : bias_;
            std::memcpy(sums + b * gates_row_, from, gates_row_ * sizeof(T));
        }
        if (!symbols_)
            Multiply<T>({batch, gates_, 1, features_, x.numbers + t * features_, samples_.data(),
                         &kHere, 1, InputWeights(w), gates_row_, sums, by_gates_.data()});
    }

    // From sums to how far the gates are open; tanh(x) is 2 sigmoid(2 x) - 1. Caches near the core
    // do not hold all steps: the next step's place is called for in time.
    void Squash(T* gates, const T* next) const {
        for (long i = 0; i < gates_row_; i += kLanes<T>) {
            __builtin_prefetch(next + i, 1);
            Vector<T> slope = meshfl::Load(slopes_ + i);
            Vector<T> open = Sigmoid<T>(slope * meshfl::Load(gates + i));
            Store(gates + i, Fma(slope, open, T(1) - slope));
        }
    }

    void Step(long t, long b, long batch) {
        long place = (t * batch + b) * hidden_row_, before = place - batch * hidden_row_;
        const T* open = Open(t, batch) + b * gates_row_;
        for (long j = 0; j < hidden_; j += kLanes<T>) {
            Vector<T> in = meshfl::Load(open + j), keep = meshfl::Load(open + hidden_ + j);
            Vector<T> fresh = meshfl::Load(open + 2 * hidden_ + j);
            Vector<T> out = meshfl::Load(open + 3 * hidden_ + j);
            Vector<T> old = t > 0 ? meshfl::Load(cells_ + before + j) : Vector<T>{};
            Vector<T> cell = Fma(keep, old, in * fresh), squashed = Tanh<T>(cell);
            for (const T* to : {(T*)cells_, (T*)squashed_, (T*)states_})
                __builtin_prefetch(to + place + batch * hidden_row_ + j, 1);
            Store(cells_ + place + j, cell);
            Store(squashed_ + place + j, squashed);
            Store(states_ + place + j, out * squashed);
        }
    }

    // From the last vector down: what it writes beyond a gate's end is overwritten by the next's.
    void StepBack(long t, long b, long batch, T* dz) {
        long place = (t * batch + b) * hidden_row_, before = place - batch * hidden_row_;
        const T* open = Open(t, batch) + b * gates_row_;
        T *state = state_gradient_ + b * hidden_row_, *cell = cell_gradient_ + b * hidden_row_;
        for (long j = (hidden_ - 1) / kLanes<T> * kLanes<T>; j >= 0; j -= kLanes<T>) {
            Vector<T> in = meshfl::Load(open + j), keep = meshfl::Load(open + hidden_ + j);
            Vector<T> fresh = meshfl::Load(open + 2 * hidden_ + j);
            Vector<T> out = meshfl::Load(open + 3 * hidden_ + j);
            Vector<T> old = t > 0 ? meshfl::Load(cells_ + before + j) : Vector<T>{};
            Vector<T> squashed = meshfl::Load(squashed_ + place + j), dh = meshfl::Load(state + j);
            Vector<T> dc = Fma(dh * out, T(1) - squashed * squashed, meshfl::Load(cell + j));
            Store(dz + j, dc * fresh * in * (T(1) - in));
            Store(dz + hidden_ + j, dc * old * keep * (T(1) - keep));
            Store(dz + 2 * hidden_ + j, dc * in * (T(1) - fresh * fresh));
            Store(dz + 3 * hidden_ + j, dh * squashed * out * (T(1) - out));
            Store(cell + j, dc * keep);
        }
    }

    void HandOn(const T* dz, Samples<T> dx, long batch, long t) {
        Zero((T*)input_gradient_, batch * features_row_);
        Multiply<T>({batch, features_, 1, gates_, dz, by_gates_.data(), &kHere, 1, input_back_,
                     features_row_, input_gradient_, by_features_.data()});
        for (long b = 0; b < batch; ++b)
            std::memcpy(dx[b] + t * features_, input_gradient_ + b * features_row_,
                        features_ * sizeof(T));
    }

    // The parameters' gradients from the steps t + slots - 1 down to t.
    void Collect(T* to, Samples<T> x, long batch, long t, long slots) {
        long inputs[kTogether], states[kTogether];
        for (long s = 0; s < slots; ++s) {
            inputs[s] = (t + slots - 1 - s) * features_;
            states[s] = (t + slots - 2 - s) * batch * hidden_row_;
        }
        long before = t > 0 ? slots : slots - 1;  // no state came before the first step
        if (before > 0)
            Multiply<T>({hidden_, gates_, before, batch, states_, one_by_one_.data(), states,
                         hidden_row_, gates_gradient_, gates_row_, HiddenWeights(to),
                         by_gates_.data()});
        if (!symbols_) {
            Multiply<T>({features_, gates_, slots, batch, x.numbers, one_by_one_.data(), inputs,
                         x.stride, gates_gradient_, gates_row_, InputWeights(to), by_gates_.data()});
        }
        for (long s = 0; s < slots; ++s)
            for (long b = 0; b < batch; ++b) {
                const T* dz = gates_gradient_ + (s * batch + b) * gates_row_;
                if (symbols_) {
                    long symbol = x[b][t + slots - 1 - s];
                    Add(table_gradient_ + symbol * gates_row_, dz, gates_row_);
                } else {
                    AddToBiases(to, dz);
                }
            }
    }

    void CollectTable(T* to) {
        Multiply<T>({features_, gates_, 1, symbols_, embedding_, one_by_one_.data(), &kHere,
                     features_row_, table_gradient_, gates_row_, InputWeights(to), by_gates_.data()});
        Multiply<T>({symbols_, features_, 1, gates_, table_gradient_, by_gates_.data(), &kHere, 1,
                     input_back_, features_row_, to, by_features_.data()});
        for (long s = 0; s < symbols_; ++s) AddToBiases(to, table_gradient_ + s * gates_row_);
    }

    void AddToBiases(T* to, const T* dz) const {
        Add(Biases(to), dz, gates_row_);
        Add(Biases(to) + gates_row_, dz, gates_row_);
    }

    long time_, features_, hidden_, symbols_;
    bool last_;
    long gates_, gates_row_, hidden_row_, features_row_;
    std::vector<long> one_by_one_, by_gates_, by_hidden_, by_features_, samples_;
    Room<T> embedding_, table_, table_gradient_, bias_, input_back_, hidden_back_, slopes_, open_,
        cells_, squashed_, states_, gates_gradient_, state_gradient_, cell_gradient_, input_gradient_;
};

}  // namespace meshfl
