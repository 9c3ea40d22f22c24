// Transformer: the embedding, the head, the loss, and the row of visits.
#include "models/transformer.h"

#include <utility>

#include "core/draw.h"

namespace shardsim {

Transformer::Transformer(Device& device, const TransformerSizes& sizes, TokenBatchSource source, std::uint64_t key)
    : sizes_(sizes), layers_{device, sizes_, tree_}, source_(std::move(source)), key_(key) {
  root_ = tree_.open("model");
  const auto table = [&](const char* name, Dim rows, int& module) {
    module = tree_.add(name);
    tree_.own(module, embedding_.next());
    return embedding_.add(name, rows, sizes.hidden);
  };
  token_table_ = table("embedding.tokens", sizes.vocab, tokens_module_);
  if (!sizes.is_llama()) position_table_ = table("embedding.positions", sizes.positions, positions_module_);
  if (!sizes.is_llama()) dropout_ = tree_.add("embedding.dropout");
  // A tied head's norm is the embedding's neighbour in memory; as modules, both stand behind the blocks.
  ModuleTree last_modules;
  Layers last_layers{device, sizes_, last_modules};
  if (sizes.tied) final_norm_ = last_layers.add_norm(embedding_, "head.norm");
  layouts_.push_back(&embedding_.layout());
  int first = embedding_.next();
  blocks_.reserve(std::size_t(sizes.layers));
  for (int block = 0; block < sizes.layers; ++block) {
    const Weights& weights = blocks_.emplace_back(layers_, block, first).weights();
    layouts_.push_back(&weights.layout());
    first = weights.next();
  }
  head_ = Weights(first);
  if (!sizes.tied) final_norm_ = last_layers.add_norm(head_, "head.norm");
  final_norm_.module = tree_.add("head.norm");
  for (const int parameter : last_modules.modules().front().parameters) tree_.own(final_norm_.module, parameter);
  head_module_ = tree_.add("head");
  head_matrix_ = sizes.tied ? token_table_ : head_.add("head.weight", sizes.vocab, sizes.hidden);
  tree_.own(head_module_, sizes.tied ? embedding_.global(token_table_) : head_.global(head_matrix_));
  tree_.close();
  if (!sizes.tied) layouts_.push_back(&head_.layout());
  for (int block = 0; sizes.plan.mask_buffers && block < sizes.layers; ++block)
    masks_.push_back(layers_.temporary(sizes.positions, sizes.positions, Dtype::fp32));
  if (sizes.plan.scores_buffer)
    scores_ = layers_.temporary(sizes.sequences * sizes.heads.count * sizes.heads.sequence, sizes.heads.sequence);
  for (int module = 0; module < modules(); ++module) visits_.push_back(module);
  if (sizes.tied) visits_.push_back(0);
}

std::optional<Gpt2Sizes> Transformer::gpt2() const {
  if (sizes_.is_llama() || !sizes_.tied || sizes_.plan.hidden_dropout > 0 || sizes_.plan.attention_dropout > 0) return {};
  return Gpt2Sizes{sizes_.layers, sizes_.sequences, sizes_.tokens(), sizes_.hidden, sizes_.heads.count, sizes_.vocab};
}

void Transformer::begin_step(int, Tensor scaler) {
  scaler_ = scaler;
  loss_ = layers_.temporary(one, one, Dtype::fp32);
  layers_.launch(Fill{*loss_, 0.f});
}

void Transformer::load(int step, int micro_batch) {
  layers_.micro_batch_key = drawn(drawn(key_, std::uint64_t(step)), std::uint64_t(micro_batch));
  if (source_) source_(step, micro_batch, id_values_, target_values_);
  ids_ = layers_.kept(sizes_.tokens(), one, Dtype::int64);
  targets_ = layers_.kept(sizes_.tokens(), one, Dtype::int64);
  layers_.device.upload(Lane::compute, *ids_, {&id_values_, none, ids_->count()});
  layers_.device.upload(Lane::compute, *targets_, {&target_values_, none, targets_->count()});
}

void Transformer::forward(int visit, Tensor params) {
  if (visit == 0) return embed(params_of(embedding_, params));
  if (visit > sizes_.layers) return head(params_of(sizes_.tied ? embedding_ : head_, params));
  stream_ = blocks_[visit - 1].forward(std::move(stream_), params);
}

void Transformer::backward(int visit, Tensor params, Tensor grads, bool accumulate) {
  if (visit == 0) return embed_backward({embedding_, grads, layers_.hooks}, accumulate);
  if (visit > sizes_.layers) {
    const Weights& weights = sizes_.tied ? embedding_ : head_;
    return head_backward(params_of(weights, params), {weights, grads, layers_.hooks}, accumulate);
  }
  gradient_ = blocks_[visit - 1].backward(std::move(gradient_), params, grads, accumulate);
}

void Transformer::embed(const Params& params) {
  layers_.enter(root_, Pass::forward);
  stream_ = layers_.kept(sizes_.tokens(), sizes_.hidden);
  layers_.enter(tokens_module_, Pass::forward);
  layers_.launch(Embed{*ids_, params[token_table_], *stream_});
  layers_.leave(tokens_module_, Pass::forward);
  if (position_table_ < 0) return;
  layers_.enter(positions_module_, Pass::forward);
  const Tensor positions = params[position_table_].matrix(none, sizes_.heads.sequence, sizes_.hidden);
  layers_.launch(AddBias{positions, *stream_});
  layers_.leave(positions_module_, Pass::forward);
  stream_mask_ = layers_.dropout(dropout_, sizes_.plan.hidden_dropout, -1, *stream_, *stream_);
}

/// Embeddings have no input that needs a gradient: their backward begins and does not end, as a framework's hooks see it.
void Transformer::embed_backward(const Grads& grads, bool accumulate) {
  if (Held dropped = layers_.dropout_backward(dropout_, sizes_.plan.hidden_dropout, std::move(stream_mask_), *gradient_))
    gradient_ = std::move(dropped);
  if (position_table_ >= 0) {
    layers_.enter(positions_module_, Pass::backward);
    const Tensor all = grads[position_table_];
    const Dim used = sizes_.heads.sequence * sizes_.hidden;
    layers_.launch(SumRows{*gradient_, all.matrix(none, sizes_.heads.sequence, sizes_.hidden), accumulate});
    if (!accumulate) layers_.launch(Fill{all.slice(used, all.count() - used), 0.f});
    grads.ready(position_table_);
  }
  layers_.enter(tokens_module_, Pass::backward);
  layers_.launch(EmbedBackward{*ids_, *gradient_, grads[token_table_], accumulate || sizes_.tied});  // tied: the head wrote it
  grads.ready(token_table_);
  ids_.reset();
  gradient_.reset();
  layers_.leave(root_, Pass::backward);
}

void Transformer::head(const Params& params) {
  normed_ = layers_.norm(params, final_norm_, *stream_);
  layers_.enter(head_module_, Pass::forward);
  logits_ = layers_.kept(sizes_.tokens(), sizes_.vocab);
  layers_.launch(Matmul{*normed_.y, params[head_matrix_], *logits_, false, true, false});
  layers_.leave(head_module_, Pass::forward);
  loss();
  layers_.leave(root_, Pass::forward);
}

/// `fused` leaves the gradient where the logits were, `fp32_fused` where their fp32 copy was; the others keep log-probabilities for
/// the backward pass.
void Transformer::loss() {
  const Dim rows = logits_->rows, cols = logits_->cols;
  if (sizes_.plan.loss == TransformerPlan::Loss::fused) {
    layers_.launch(CrossEntropy{*logits_, *targets_, *logits_, *loss_, scaler_, sizes_.micro_batches});
    return;
  }
  const bool is_fused = sizes_.plan.loss == TransformerPlan::Loss::fp32_fused;
  const bool widens = is_fused || sizes_.plan.loss == TransformerPlan::Loss::fp32;
  if (widens) {
    wide_logits_ = layers_.kept(rows, cols, Dtype::fp32);
    layers_.launch(Copy{*logits_, *wide_logits_});
  }
  if (is_fused) {
    logits_.reset();
    layers_.launch(CrossEntropy{*wide_logits_, *targets_, *wide_logits_, *loss_, scaler_, sizes_.micro_batches});
    return;
  }
  log_probabilities_ = layers_.kept(rows, cols, widens ? Dtype::fp32 : sizes_.type);
  layers_.launch(LogSoftmax{widens ? *wide_logits_ : *logits_, *log_probabilities_});
}

/// Puts the gradient of the logits into logits_. The logits live as long as the caller of a framework's loss keeps them: till here.
void Transformer::loss_backward() {
  if (sizes_.plan.loss == TransformerPlan::Loss::fused) return;
  if (sizes_.plan.loss == TransformerPlan::Loss::fp32_fused) {
    logits_ = layers_.temporary(wide_logits_->rows, wide_logits_->cols);
    layers_.launch(Copy{*wide_logits_, *logits_});
    wide_logits_.reset();
    return;
  }
  const Dim rows = logits_->rows, cols = logits_->cols;
  const Dtype type = log_probabilities_->dtype();
  Held dlogp = layers_.temporary(rows, cols, type);
  layers_.launch(NllLoss{*log_probabilities_, *targets_, *dlogp, *loss_, scaler_, sizes_.micro_batches});
  Held dlogits = layers_.temporary(rows, cols, type);
  layers_.launch(LogSoftmaxBackward{*log_probabilities_, *dlogp, *dlogits});
  if (sizes_.plan.loss == TransformerPlan::Loss::fp32) {
    Held narrow = layers_.temporary(rows, cols);
    layers_.launch(Copy{*dlogits, *narrow});
    dlogits = std::move(narrow);
  }
  log_probabilities_.reset(), wide_logits_.reset();
  if (sizes_.plan.keeps_logits) held_by_loop_ = std::move(logits_);
  logits_ = std::move(dlogits);
}

void Transformer::head_backward(const Params& params, const Grads& grads, bool accumulate) {
  loss_backward();
  targets_.reset();
  layers_.enter(root_, Pass::backward);
  layers_.enter(head_module_, Pass::backward);
  Held dnormed = layers_.temporary(normed_.y->rows, normed_.y->cols);
  layers_.launch(Matmul{*logits_, params[head_matrix_], *dnormed, false, false, false});
  layers_.launch(Matmul{*logits_, *normed_.y, grads[head_matrix_], true, false, accumulate});
  logits_.reset();
  if (!sizes_.tied) grads.ready(head_matrix_);
  layers_.leave(head_module_, Pass::backward);
  gradient_ = layers_.norm_backward(params, grads, final_norm_, *stream_, normed_, *dnormed, accumulate);
  normed_ = {}, stream_.reset();
}

void Transformer::end_step(std::vector<float>& loss) {
  layers_.device.download(Lane::compute, *loss_, loss);
  loss_.reset();
  held_by_loop_.reset();
}

}  // namespace shardsim
