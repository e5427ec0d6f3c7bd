// Local SGD of many jobs, one after the other, each within the caches of one core.

#include <cstdint>

#include "conv_pool.h"
#include "dense.h"
#include "lstm.h"

namespace meshfl {
namespace {

enum Kind : int64_t { kDense, kConvPool, kLstm };
enum Numbers : int64_t { kFloat32, kFloat64, kInt64 };
constexpr int kWords = 8;  // that describe a layer

// All that stays the same from job to job.
struct Task {
    const void* x;
    const void* y;       // labels, or rows of outputs
    int64_t x_type;      // of Numbers
    int64_t regression;
    int64_t batch;
    double momentum;
    double clip_norm;  // 0: none
};

struct Job {
    const void* start;
    const void* shift;         // or null
    void* model;               // to be written
    const int64_t* samples;    // of all steps
    int64_t per_epoch;         // samples after which a batch ends early
    int64_t steps;
    double rate;
    double pull;
    double loss;               // to be written: the mean over steps
};

template <class T>
class Net {
  public:
    Net(const int64_t* words, long layers, const Task& task)
        : task_(task), x_(0), scratch_(0) {
        for (long i = 0; i < layers; ++i) layers_.push_back(Make(words + i * kWords, i == 0));
        for (auto& layer : layers_) {
            stored_ += layer->stored;
            outputs_.emplace_back(task.batch * Padded(layer->outputs));
            gradients_.emplace_back(task.batch * Padded(layer->outputs));
        }
        x_ = Room<T>(task.batch * layers_[0]->inputs);
        scratch_ = Room<T>(Padded(layers_.back()->outputs));
        for (bool needed : {true, Steered(), true, Steered(), Steered(), Steered()})
            vectors_.emplace_back(needed ? stored_ : 0);
    }

    void Train(Job& job) {
        Load(job.start, w());
        bool drifts = job.pull != 0 || job.shift;
        if (Steered()) {
            Load(job.start, start());
            if (job.shift) Load(job.shift, shift());
            Zero(velocity(), stored_);
        } else if (drifts) {
            Load(job.shift ? job.shift : job.start, drift());
            for (long i = 0; i < stored_; ++i)
                drift()[i] = T(job.rate * job.pull) * w()[i] -
                             (job.shift ? T(job.rate) * drift()[i] : T(0));
        }
        const int64_t* samples = job.samples;
        double losses = 0;
        for (long step = 0, place = 0; step < job.steps; ++step) {
            long count = std::min<long>(task_.batch, job.per_epoch - place);
            losses += Step(job, samples, count, drifts && !Steered());
            samples += count;
            place = (place + count) % job.per_epoch;
        }
        job.loss = losses / job.steps;
        Read(static_cast<T*>(job.model));
    }

  private:
    std::unique_ptr<Layer<T>> Make(const int64_t* v, bool first) const {
        long n = task_.batch;
        if (v[0] == kDense) return std::make_unique<Dense<T>>(v[1], v[2], v[3], v[4], n);
        if (v[0] == kConvPool)
            return std::make_unique<ConvPool<T>>(v[1], v[2], v[3], v[4], v[5], v[6], first, n);
        return std::make_unique<Lstm<T>>(v[1], v[2], v[3], v[4], v[5], n);
    }

    // Momentum or clipping need whole gradients; otherwise steps go straight into the parameters.
    bool Steered() const { return task_.momentum != 0 || task_.clip_norm != 0; }

    T* w() const { return vectors_[0]; }
    T* gradient() const { return vectors_[1]; }
    T* drift() const { return vectors_[2]; }
    T* start() const { return vectors_[3]; }
    T* shift() const { return vectors_[4]; }
    T* velocity() const { return vectors_[5]; }

    void Load(const void* vector, T* to) const {
        auto flat = static_cast<const T*>(vector);
        for (auto& layer : layers_) {
            layer->Load(flat, to);
            flat += layer->flat, to += layer->stored;
        }
    }

    void Read(T* flat) const {
        const T* from = w();
        for (auto& layer : layers_) {
            layer->Read(from, flat);
            flat += layer->flat, from += layer->stored;
        }
    }

    Samples<T> Inputs(size_t layer) const {
        if (layer == 0) return {x_, layers_[0]->inputs};
        return {outputs_[layer - 1], Padded(layers_[layer - 1]->outputs)};
    }

    double Step(const Job& job, const int64_t* samples, long count, bool drifts) {
        Gather(samples, count);
        T* from = w();
        for (size_t i = 0; i < layers_.size(); from += layers_[i++]->stored)
            layers_[i]->Forward(from, Inputs(i), Inputs(i + 1), count);
        double loss = Losses(samples, count, (Steered() ? 1 : -job.rate) / count);
        for (size_t i = layers_.size(); i-- > 0;) {
            from -= layers_[i]->stored;
            long at = from - w();
            Goal<T> goal{from, Steered() ? gradient() + at : nullptr, drifts ? drift() + at : nullptr,
                         T(1 - job.rate * job.pull)};
            long stride = Padded(layers_[i]->outputs);
            Samples<T> before{};
            if (i > 0) before = {gradients_[i - 1], Padded(layers_[i - 1]->outputs)};
            layers_[i]->Backward(from, goal, Inputs(i), Inputs(i + 1), {gradients_[i], stride}, before,
                                 count);
        }
        if (Steered()) Steer(job);
        return loss;
    }

    void Gather(const int64_t* samples, long count) {
        if (task_.x_type == kFloat32) GatherFrom(static_cast<const float*>(task_.x), samples, count);
        if (task_.x_type == kFloat64) GatherFrom(static_cast<const double*>(task_.x), samples, count);
        if (task_.x_type == kInt64) GatherFrom(static_cast<const int64_t*>(task_.x), samples, count);
    }

    template <class X>
    void GatherFrom(const X* x, const int64_t* samples, long count) {
        long size = layers_[0]->inputs;
        for (long i = 0; i < count; ++i) {
            const X* from = x + samples[i] * size;
            T* to = x_ + i * size;
            for (long j = 0; j < size; ++j) to[j] = T(from[j]);
        }
    }

    // Their mean; the gradient, times scale, goes to the last layer.
    double Losses(const int64_t* samples, long count, double scale) {
        long outputs = layers_.back()->outputs, stride = Padded(outputs);
        double sum = 0;
        for (long i = 0; i < count; ++i) {
            const T* y = outputs_.back() + i * stride;
            T* dy = gradients_.back() + i * stride;
            if (task_.regression)
                sum += SquaredError(y, static_cast<const T*>(task_.y) + samples[i] * outputs, dy,
                                    outputs, T(scale));
            else
                sum += CrossEntropy(y, static_cast<const int64_t*>(task_.y)[samples[i]], dy, outputs,
                                    T(scale));
        }
        return sum / count;
    }

    double SquaredError(const T* y, const T* truth, T* dy, long outputs, T scale) const {
        double sum = 0;
        for (long j = 0; j < outputs; ++j) {
            T error = y[j] - truth[j];
            sum += double(error) * error;
            dy[j] = scale * (T(2) / outputs) * error;
        }
        return sum / outputs;
    }

    double CrossEntropy(const T* y, long label, T* dy, long outputs, T scale) {
        T most = *std::max_element(y, y + outputs), total = 0;
        for (long j = 0; j < outputs; j += kLanes<T>)
            Store(scratch_ + j, Exp<T>(meshfl::Load(y + j) - most));
        for (long j = 0; j < outputs; ++j) total += scratch_[j];
        for (long j = 0; j < outputs; ++j) dy[j] = scale * (scratch_[j] / total - (j == label));
        return std::log(double(total)) - (y[label] - most);
    }

    void Steer(const Job& job) {
        T *g = gradient(), *v = velocity(), *at = w();
        const T *origin = start(), *extra = shift();
        if (job.pull != 0)
            for (long i = 0; i < stored_; ++i) g[i] += T(job.pull) * (at[i] - origin[i]);
        if (job.shift) Add(g, extra, stored_);
        if (task_.clip_norm != 0) {
            double norm = Norm(g);
            if (norm > task_.clip_norm)
                for (long i = 0; i < stored_; ++i) g[i] *= T(task_.clip_norm / norm);
        }
        for (long i = 0; i < stored_; ++i) {
            v[i] = T(task_.momentum) * v[i] + g[i];
            at[i] -= T(job.rate) * v[i];
        }
    }

    double Norm(const T* g) const {
        double sums[16] = {}, sum = 0;
        for (long i = 0; i < stored_; i += 16)  // in an order that no processor changes
            for (long j = 0; j < 16; ++j) sums[j] += double(g[i + j]) * g[i + j];
        for (double part : sums) sum += part;
        return std::sqrt(sum);
    }

    Task task_;
    std::vector<std::unique_ptr<Layer<T>>> layers_;
    long stored_ = 0;
    std::vector<Room<T>> outputs_, gradients_, vectors_;
    Room<T> x_, scratch_;
};

}  // namespace
}  // namespace meshfl

using Net = meshfl::Net<MESHFL_NUMBER>;

extern "C" {

// null: out of memory.
Net* meshfl_new(const int64_t* words, int64_t layers, const meshfl::Task* task) try {
    return new Net(words, layers, *task);
} catch (const std::bad_alloc&) {
    return nullptr;
}

void meshfl_train(Net* net, meshfl::Job* jobs, int64_t count) {
    for (int64_t i = 0; i < count; ++i) net->Train(jobs[i]);
}

void meshfl_delete(Net* net) { delete net; }
}
