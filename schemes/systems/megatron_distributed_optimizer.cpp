// megatron_distributed_optimizer: the buffers and their buckets, what the hooks do, and the step.
#include "systems/megatron_distributed_optimizer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace shardsim {

std::vector<Option> MegatronDistributedOptimizer::options() {
  using Kind = Option::Kind;
  return {
      {"use_distributed_optimizer", Kind::boolean, "true",
       "reduce-scatter, update of a shard, gather; false (Megatron's own default): all-reduce, and Adam on everything"},
      {"overlap_grad_reduce", Kind::boolean, "false",
       "reduce each bucket as soon as it is full; false: one bucket, after backward"},
      {"overlap_param_gather", Kind::boolean, "false",
       "gather a bucket when forward gets there, one ahead; false: all of them after the step"},
      {.name = "grad_reduce_in_fp32",
       .kind = Kind::boolean,
       .standard = "None",
       .about = "type of the gradient buffer: fp32, or the parameters'; None: fp32, as Megatron's --bf16 sets it, whatever "
                "precision.reduce says",
       .words = {"None"}},
      {"average_in_collective", Kind::boolean, "false",
       "divide inside of the collective (ncclAvg); false: in a pass over the bucket before it"},
      {.name = "bucket_size",
       .kind = Kind::integer,
       .standard = "None",
       .about = "elements of a bucket (--ddp-bucket-size); None: 40000000, or 1000000 per rank if that is more",
       .words = {"None"},
       .low = 1},
      {"pad_buckets_for_high_nccl_busbw", Kind::boolean, "false", "pad buckets to a multiple of 65536 elements, too"},
      {.name = "num_distributed_optimizer_instances",
       .kind = Kind::integer,
       .standard = "1",
       .about = "so many groups of neighbours that each shard the optimizer: reduce-scatter inside, all-reduce of shards between",
       .low = 1,
       .high = 1e6}};
}

MegatronDistributedOptimizer::MegatronDistributedOptimizer(const Options& options)
    : options_(options),
      is_distributed_(options.boolean("use_distributed_optimizer")),
      overlaps_reduction_(options.boolean("overlap_grad_reduce")),
      overlaps_gather_(options.boolean("overlap_param_gather")),
      averages_in_collective_(options.boolean("average_in_collective")) {
  // As Megatron's arguments assert.
  if (overlaps_gather_ && !(is_distributed_ && overlaps_reduction_))
    throw std::invalid_argument(
        "overlap_param_gather: Megatron asks for use_distributed_optimizer: true and overlap_grad_reduce: true with it");
  if (!is_distributed_ && options.integer("num_distributed_optimizer_instances") > 1)
    throw std::invalid_argument("num_distributed_optimizer_instances: several need use_distributed_optimizer: true");
}

void MegatronDistributedOptimizer::read_options() {
  const Precision& precision = knobs().precision;
  if (precision.grad != precision.param)
    refuse("precision.grad: backward makes gradients of the parameters' type; leave it out, and see grad_reduce_in_fp32");
  if (precision.param != Dtype::fp32 && !precision.master) refuse("Megatron keeps fp32 masters; use precision.master: fp32");
  const std::string& in_fp32 = options_.text("grad_reduce_in_fp32");
  if (in_fp32 == "false" && precision.reduce != precision.param)
    refuse("grad_reduce_in_fp32: false reduces in the parameters' type, precision.reduce asks for another; remove one");
  main_grad_type_ = in_fp32 == "false" ? precision.param : Dtype::fp32;
  const int world = rank().world, instances = int(options_.integer("num_distributed_optimizer_instances"));
  if (world % instances != 0)
    refuse("num_distributed_optimizer_instances: " + std::to_string(instances) + " do not divide " + std::to_string(world) +
           " ranks");
  mesh_ = Mesh::of(rank().index, world, world / instances);
}

/// In reverse order, roughly as gradients come. With the distributed optimizer a parameter begins at a multiple of 64 elements, and
/// a bucket ends at one of the ranks and of 128.
void MegatronDistributedOptimizer::make_buckets() {
  const std::int64_t n = mesh_.shards.size, world = rank().world;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max(), divisor = 1;
  if (overlaps_reduction_)
    limit = options_.text("bucket_size") == "None" ? std::max<std::int64_t>(40'000'000, 1'000'000 * world)
                                                   : options_.integer("bucket_size");
  if (is_distributed_) divisor = std::lcm(n, options_.boolean("pad_buckets_for_high_nccl_busbw") ? 1 << 16 : 128);
  std::vector<Dim> counts;
  std::vector<std::size_t> places(states_.size());  // in counts
  Dim at;
  const auto append = [&](Dim count) { counts.push_back(count), at = at + count; };
  const auto pad_to = [&](std::int64_t multiple) { append(Dim((multiple - at.charged() % multiple) % multiple, 0)); };
  for (int p = int(states_.size()) - 1; p >= 0; --p) {
    if (buckets_.empty() || buckets_.back().count.charged() > 0) buckets_.emplace_back().begin = at;
    Bucket& bucket = buckets_.back();
    if (is_distributed_) pad_to(64);
    places[std::size_t(p)] = counts.size();
    states_[std::size_t(p)].bucket = int(buckets_.size()) - 1;
    bucket.parameters.push_back(p);
    append(parameters()[std::size_t(p)].count());
    if (p > 0 && (at - bucket.begin).charged() < limit) continue;
    pad_to(divisor);
    bucket.count = at - bucket.begin;
  }
  const Image image(counts);
  size_ = image.count();
  for (const std::size_t place : places) begins_.push_back(image.begin(int(place)));
  for (Bucket& bucket : buckets_) {
    std::vector<Dim> borders;
    for (std::int64_t c = 0; is_distributed_ && c <= n; ++c)
      borders.push_back(image.at(bucket.begin.charged() + bucket.count.charged() / n * c) - bucket.begin);
    bucket.borders = std::make_shared<const std::vector<Dim>>(std::move(borders));
  }
}

Tensor MegatronDistributedOptimizer::shard_of(const Bucket& bucket, Tensor buffer) const {
  if (!is_distributed_) return buffer.slice(bucket.begin, bucket.count);
  const Dim begin = (*bucket.borders)[std::size_t(mesh_.shards.me)], end = (*bucket.borders)[std::size_t(mesh_.shards.me) + 1];
  return buffer.slice(bucket.begin + begin, end - begin);
}

void MegatronDistributedOptimizer::make_bands() {
  read_options();
  states_.resize(parameters().size());
  make_buckets();
  label(Verb::bind);
  const Dtype type = knobs().precision.param;
  if (is_distributed_) params_ = zeros(Band::param, size_, type);
  grads_ = zeros(Band::grad, size_, main_grad_type_);
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = states_[std::size_t(p)];
    label(Verb::bind, p);
    const Dim count = parameters()[std::size_t(p)].count();
    s.param = is_distributed_ ? params_.slice(begins_[std::size_t(p)], count) : alloc(Lane::compute, Band::param, count, type);
    s.main_grad = grads_.slice(begins_[std::size_t(p)], count);
    upload_theta0(s.param, p, none, count);
  }
  for (const Bucket& bucket : buckets_)
    for (const int p : bucket.parameters) {
      const State& s = states_[std::size_t(p)];
      const Tensor shard = shard_of(bucket, grads_);
      const auto [begin, count] = overlap(s.main_grad.offset, s.main_grad.count(), shard.offset, shard.count());
      if (count.charged() == 0) continue;
      label(Verb::bind, p);
      Own own{p, begin - s.main_grad.offset, count, {}, {}, {}, {}};
      if (knobs().precision.has_master()) own.master = alloc(Lane::compute, Band::opt, count, Dtype::fp32);
      else own.master = s.param.slice(own.begin, count);
      upload_theta0(own.master, p, own.begin, count);
      own.m = zeros(Band::opt, count, Dtype::fp32);
      own.v = zeros(Band::opt, count, Dtype::fp32);
      own_.push_back(own);
    }
}

Tensor MegatronDistributedOptimizer::parameter(int p) {
  const Parameter& parameter = parameters()[std::size_t(p)];
  return states_[std::size_t(p)].param.matrix(none, parameter.rows, parameter.cols);
}

/// zero_grad_buffer, and the optimizer's zero_grad(set_to_none): fp32 copies of the gradients live until here.
void MegatronDistributedOptimizer::begin_micro_batch() {
  if (!micro_batch().first) return;
  label(Verb::load);
  device().launch(Lane::compute, Fill{grads_, 0.f});
  for (Own& own : own_)
    if (own.grad && own.grad.in != grads_.in) device().free(Lane::compute, own.grad);
  for (Bucket& bucket : buckets_) bucket.pending = int(bucket.parameters.size()), bucket.is_reduced = false;
}

void MegatronDistributedOptimizer::pre_forward(int module) {
  for (const int p : modules()[std::size_t(module)].parameters) finish_param_sync(states_[std::size_t(p)].bucket);
  label(Verb::forward);
}

/// Waits for a bucket's parameters, and only then sends the next bucket's on their way. Buckets are in reverse order: the next one
/// of a forward pass stands before this one.
void MegatronDistributedOptimizer::finish_param_sync(int index) {
  Bucket& bucket = buckets_[std::size_t(index)];
  if (bucket.is_gathered) return;
  const std::string name = "bucket " + std::to_string(index);
  if (!bucket.is_dispatched) start_param_sync(index, lane(Lane::gather), "forward reaches " + name);
  after(bucket.gathered, Lane::compute, Edge::parameters_before_use);
  bucket.is_gathered = true;
  if (index > 0 && !buckets_[std::size_t(index) - 1].is_dispatched)
    start_param_sync(index - 1, lane(Lane::gather), "forward has waited for " + name);
}

void MegatronDistributedOptimizer::start_param_sync(int index, Lane lane, const std::string& trigger) {
  Bucket& bucket = buckets_[std::size_t(index)];
  label(Verb::all_gather, index);
  order(Lane::compute, lane, Edge::update_before_gather);
  fabric().all_gather(lane, mesh_.shards, shard_of(bucket, params_), params_.slice(bucket.begin, bucket.count), Payload::data,
                      bucket.borders);
  bucket.gathered = device().record(lane);
  bucket.is_dispatched = true;
  tell({trigger, "all_gather of bucket " + std::to_string(index) + ", in place",
        bucket.count.charged() * bytes_of(knobs().precision.param), lane, "Adam", ""});
}

void MegatronDistributedOptimizer::gradient_ready(int p) {
  State& s = states_[std::size_t(p)];
  label(Verb::backward, p);
  const Tensor fresh = take_gradient(p);
  device().launch(Lane::compute, Add{fresh, s.main_grad});
  device().free(Lane::compute, fresh);
  if (!micro_batch().last) return;  // no_sync
  const bool is_full = --buckets_[std::size_t(s.bucket)].pending == 0;
  // From the first batch Megatron learns how often each gradient comes: its buckets are reduced at the end.
  if (is_full && overlaps_reduction_ && step() > 0) start_grad_sync(s.bucket, lane(Lane::reduce));
}

void MegatronDistributedOptimizer::start_grad_sync(int index, Lane lane) {
  Bucket& bucket = buckets_[std::size_t(index)];
  const Tensor whole = grads_.slice(bucket.begin, bucket.count), shard = shard_of(bucket, grads_);
  const std::string name = "bucket " + std::to_string(index);
  label(is_distributed_ ? Verb::reduce_scatter : Verb::all_reduce, index);
  if (!averages_in_collective_) device().launch(Lane::compute, Scale{whole, whole, 1.0 / rank().world, 0});
  order(Lane::compute, lane, Edge::gradient_before_reduction);
  if (is_distributed_) fabric().reduce_scatter(lane, mesh_.shards, whole, shard, Payload::data, bucket.borders);
  else fabric().all_reduce(lane, mesh_.world, whole);
  tell({name + " has all its gradients", is_distributed_ ? "reduce_scatter, in place" : "all_reduce", whole.bytes(), lane,
        "compute, up to the last gradient", ""});
  if (mesh_.replicas.size > 1 && is_distributed_) {
    label(Verb::all_reduce, index);
    fabric().all_reduce(lane, mesh_.replicas, shard);
    tell({name + " is reduced within the instance", "all_reduce of the shard between instances", shard.bytes(), lane,
          "its reduce_scatter", ""});
  }
  bucket.is_reduced = true;
  bucket.reduced = device().record(lane);
}

/// finish_grad_sync: without overlap the reductions start here, on the compute stream.
void MegatronDistributedOptimizer::end_backward() {
  if (!micro_batch().last) return;
  for (int index = 0; index < int(buckets_.size()); ++index)
    if (!buckets_[std::size_t(index)].is_reduced) start_grad_sync(index, overlaps_reduction_ ? lane(Lane::reduce) : Lane::compute);
  for (const Bucket& bucket : buckets_) after(bucket.reduced, Lane::compute, Edge::reduction_before_update);
  tell({"backward is over", "compute waits for all buckets", 0, Lane::compute, "all reductions", ""});
}

void MegatronDistributedOptimizer::update() {
  for (Own& own : own_) {
    const Tensor reduced = states_[std::size_t(own.parameter)].main_grad.slice(own.begin, own.count);
    own.grad = reduced;
    if (main_grad_type_ == Dtype::fp32) continue;
    label(Verb::adam, own.parameter);
    own.grad = alloc(Lane::compute, Band::grad, own.count, Dtype::fp32);
    device().launch(Lane::compute, Copy{reduced, own.grad});
  }
  std::vector<Tensor> gradients;
  std::vector<AdamTensors> list;
  for (const Own& own : own_) {
    gradients.push_back(own.grad);
    const Tensor param = states_[std::size_t(own.parameter)].param.slice(own.begin, own.count);
    list.push_back({own.parameter, own.grad, own.master, own.m, own.v, param});
  }
  const Tensor factor = is_distributed_ ? update_factor(gradients, mesh_.shards) : update_factor(gradients);
  launch_adam(list, factor);
  if (factor) device().free(Lane::compute, factor);
  if (!is_distributed_) return;
  for (int index = 0; index < int(buckets_.size()); ++index)
    if (overlaps_gather_) buckets_[std::size_t(index)].is_gathered = buckets_[std::size_t(index)].is_dispatched = false;
    else start_param_sync(index, Lane::compute, "Adam is over");
}

void MegatronDistributedOptimizer::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    pieces[i] = {own_[i].parameter, own_[i].begin, own_[i].count, {}};
    device().download(Lane::compute, own_[i].master, pieces[i].values);
  }
}

}  // namespace shardsim
