# %% [markdown]
"""# A tour of hubnmt: from a German sentence to an English one, every number in sight.

For readers who know Python and have read "Attention Is All You Need" (Vaswani et al. 2017,
https://arxiv.org/abs/1706.03762). What is computed by hand is compared with the library by
`assert_close`, which raises an error if the two differ.

Run it, `python hubnmt/docs/tour.py`, or open it as a notebook (VS Code, JupyterLab with Jupytext).

Shapes: B sentences, S source tokens, T target tokens, H heads, D features of a token, E = D / H
features of a head, F inside the feed-forward network, V vocabulary, L layers, W hypotheses.
"""

# %%
import dataclasses
import math

import torch
from torch.nn import functional
from torch.testing import assert_close

from hubnmt import Translator
from hubnmt.decoding.beam import beam_search
from hubnmt.decoding.search import run_to_end
from hubnmt.inference.engine import ModelStep
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.model.layers import EncoderLayer, sinusoidal_positions
from hubnmt.model.transformer import Transformer

torch.manual_seed(0)
torch.set_grad_enabled(False)  # only the training step below needs gradients

translator = Translator.from_pretrained("de-en-multi30k")  # comes with hubnmt, no download
model, config = translator.model, translator.config
tokenizer = translator.tokenizers.src  # this model has one vocabulary for both languages
pad_id, bos_id, eos_id = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id

SENTENCE = "Zwei Hunde rennen und spielen im Schnee."
TRANSLATION = "Two dogs are running and playing in the snow."
print(translator.translate(SENTENCE).text)
print(f"D = {config.d_model}, H = {config.n_heads}, {config.n_parameters:,} parameters")

# %% [markdown]
# ## 1. Text to pieces
# The vocabulary was learned by byte-pair encoding: a word starts as single bytes, and pairs of
# neighbours are merged in the order in which training found them to be frequent. Frequent words
# end as one piece, rare words as several, and no text is ever unknown.

# %%
for pieces in tokenizer.merge_steps(" Hundeschlitten"):  # "dog sled"; the space belongs to it
    print(" | ".join(piece.decode("utf-8", errors="replace") for piece in pieces))
src_rows = [tokenizer.encode(text) for text in (SENTENCE, "Zwei Hundeschlitten 🐕")]
print(list(zip(src_rows[1], tokenizer.readable(src_rows[1]), strict=True)))
assert tokenizer.decode(src_rows[0]) == SENTENCE  # pieces are the text: nothing is lost

# Sentences of a batch are padded to one length. The decoder reads the target one position behind
# what it must predict: `tgt_in` begins with `<bos>`, `tgt_out` ends with `<eos>`.
src_ids, src_pad_mask = batch_sources(src_rows, pad_id=pad_id, eos_id=eos_id)  # (B, S) each
tgt_row = tokenizer.encode(TRANSLATION)
tgt_in, tgt_out, _ = batch_targets([tgt_row], pad_id=pad_id, bos_id=bos_id, eos_id=eos_id)
print("the decoder reads", tokenizer.readable(tgt_in[0].tolist()))
print("and predicts     ", tokenizer.readable(tgt_out[0].tolist()))

# %% [markdown]
# ## 2. One encoder layer by hand
# Section 3.4 and 3.5 of the paper: rows of the embedding times sqrt(D), plus the position pattern.

# %%
B, S = src_ids.shape
D, H = config.d_model, config.n_heads
E = D // H
x = model.src_embedding.weight[src_ids] * math.sqrt(D)  # (B, S, D)
x = x + sinusoidal_positions(0, S, D)  # (B, S, D)
assert_close(x, model.positions(model.src_embedding(src_ids)))

# %% [markdown]
# Equation 1: softmax(Q K^T / sqrt(E)) V, in every head. This model normalises before each block
# ("pre-norm", Xiong et al. 2020), the paper after it; apart from that the layer is Figure 1.

# %%
layer = model.encoder.layers[0]
assert isinstance(layer, EncoderLayer)
attention = layer.self_attention
h = layer.self_residual.norm(x)  # (B, S, D)
qkv = h @ attention.qkv_proj.weight.T + attention.qkv_proj.bias  # (B, S, 3 D)
q, k, v = qkv.view(B, S, 3, H, E).permute(2, 0, 3, 1, 4)  # (B, H, S, E) each
scores = q @ k.transpose(-2, -1) / math.sqrt(E)  # (B, H, S, S)
may_look = ~src_pad_mask[:, None, None, :]  # (B, 1, 1, S): nobody looks at padding
scores = scores.masked_fill(~may_look, -math.inf)  # exp(-inf) = 0
weights = scores.exp() / scores.exp().sum(-1, keepdim=True)  # (B, H, S, S), a softmax
mixed = weights @ v  # (B, H, S, E)
merged = mixed.transpose(1, 2).reshape(B, S, D)  # (B, S, D): heads side by side
attended = merged @ attention.out_proj.weight.T + attention.out_proj.bias  # (B, S, D)
assert_close(attended, attention(q, k, v, attn_mask=may_look)[0])

x1 = x + attended  # (B, S, D): the residual connection
ff = layer.feed_forward
inner = (layer.ff_residual.norm(x1) @ ff.linear1.weight.T + ff.linear1.bias).relu()  # (B, S, F)
x2 = x1 + inner @ ff.linear2.weight.T + ff.linear2.bias  # (B, S, D)
by_library, library_weights = layer(x, may_look, need_weights=True)
assert_close(x2, by_library)
assert_close(weights, library_weights)
# Padding must not count: the encoder gives the sentence alone the same encoding.
src_alone, mask_alone = batch_sources(src_rows[:1], pad_id=pad_id, eos_id=eos_id)  # (1, S) each
memory = model.encode(src_ids, src_pad_mask)  # (B, S, D)
assert_close(memory[:1, : src_alone.shape[1]], model.encode(src_alone, mask_alone))

# %% [markdown]
# ## 3. Attention of a sentence
# The decoder may look at the source as it likes, but in the target only back. So all positions can
# be trained at once: changing a later token leaves what is said before it as it was.

# %%
changed = tgt_in.clone()
changed[0, 6:] = bos_id
logits, maps = model.attend(src_alone, tgt_in, mask_alone)  # (1, T, V)
assert_close(logits[:, :6], model(src_alone, changed, mask_alone)[:, :6])
assert_close(maps.cross_attn.sum(-1), torch.ones(maps.cross_attn.shape[:-1]))  # (1, L, H, T)

# One head, measured when the model was published, links words best: in this model one step after a
# word was chosen, when it is the decoder's input (`alignment_shift`).
head_layer, head = config.alignment_head or (0, 0)
cross = maps.cross_attn[0, head_layer, head]  # (T, S)
src_words = tokenizer.readable([*src_rows[0], eos_id])  # here each word is one piece
for t, word in enumerate(tokenizer.readable(tgt_row)):
    looked = cross[t + config.alignment_shift]  # (S,)
    print(f"{word.strip():>10} <- {src_words[int(looked.argmax())].strip()} {looked.max():.2f}")

# %% [markdown]
# ## 4. A training step
# Section 5.4: with label smoothing e the model is asked for 1 - e on the right piece and e spread
# evenly over all V. The loss is then (1 - e) times the negative log-likelihood plus e times the
# mean of all -log p.

# %%
SMOOTHING = 0.1
log_probs = logits[0].log_softmax(-1)  # (T, V)
nll = -log_probs.gather(1, tgt_out[0, :, None])[:, 0]  # (T,)
by_hand = ((1 - SMOOTHING) * nll + SMOOTHING * -log_probs.mean(-1)).mean()
assert_close(by_hand, functional.cross_entropy(logits[0], tgt_out[0], label_smoothing=SMOOTHING))
print(f"trained: {by_hand:.2f}, guessing evenly: {math.log(config.tgt_vocab_size):.2f}")

# %% [markdown]
# A new, small model with random weights learns this pair by heart. The optimizer is the paper's
# (section 5.3): Adam, with a rate that rises for some steps and then falls as 1 / sqrt(step).

# %%
small = Transformer(dataclasses.replace(config, d_model=64, n_encoder_layers=2, n_decoder_layers=2))
optimizer = torch.optim.Adam(small.parameters(), betas=(0.9, 0.98), eps=1e-9)
for step_number in range(1, 61):
    rate = 0.2 * 64**-0.5 * min(step_number**-0.5, step_number * 30**-1.5)
    optimizer.param_groups[0]["lr"] = rate
    with torch.enable_grad():
        logits = small(src_alone, tgt_in, mask_alone)  # (1, T, V)
        loss = functional.cross_entropy(logits[0], tgt_out[0], label_smoothing=SMOOTHING)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    optimizer.step()
    if step_number % 20 == 0:
        print(f"step {step_number}  rate {rate:.4f}  loss {loss:.2f}")
predicted = small.eval()(src_alone, tgt_in, mask_alone)[0].argmax(-1)  # (T,)
assert_close(predicted, tgt_out[0])

# %% [markdown]
# ## 5. A search step by step
# A search knows the model only as a `Step`: `step(last_ids)` takes the newest token of each of the
# W hypotheses, (B, W), and returns log-probabilities of what comes next, (B, W, V). Keys and values
# of earlier positions are kept inside, so each step computes one position. Greedy search takes the
# most probable piece until it is `<eos>`.

# %%
step = ModelStep(model, src_alone, mask_alone, forbidden_ids=(pad_id, bos_id))
ids, greedy_log_prob = [bos_id], 0.0
while ids[-1] != eos_id and len(ids) <= 30:
    best, top = step(torch.tensor([ids[-1:]]))[0, 0].topk(3)
    print(tokenizer.readable(top.tolist()), [f"{p:.2f}" for p in best.exp().tolist()])
    ids, greedy_log_prob = [*ids, int(top[0])], greedy_log_prob + float(best[0])

# %% [markdown]
# Beam search keeps the W most probable beginnings, and ranks what has ended by log-probability per
# token (`length_penalty` = 1), because a plain sum prefers short sentences. Greedy search took the
# most probable piece at every step and still ended with the less probable sentence: at the third
# piece it had to choose, where the beam kept both.

# %%
step = ModelStep(model, src_alone, mask_alone, forbidden_ids=(pad_id, bos_id))
search = beam_search(
    step, bos_id=bos_id, eos_id=eos_id, max_tgt_tokens=torch.tensor([30]), beam_size=3
)
by_beam = run_to_end(search)[0][0]  # a search yields its tokens and returns its hypotheses
print(f"greedy {greedy_log_prob / len(ids[1:]):.4f}  {tokenizer.decode(ids)}")
print(f"beam   {by_beam.score:.4f}  {tokenizer.decode(by_beam.ids)}")
assert by_beam.score >= greedy_log_prob / len(ids[1:])
# Teacher forcing over the finished sentence must give the same log-probability.
tgt_in = torch.tensor([[bos_id, *by_beam.ids]])  # (1, T)
tgt_out = torch.tensor([*by_beam.ids, eos_id])  # (T,)
log_probs = model(src_alone, tgt_in, mask_alone)[0].log_softmax(-1)  # (T, V)
replayed = log_probs.gather(1, tgt_out[:, None]).sum()
assert_close(replayed.item(), by_beam.log_prob, rtol=1e-4, atol=1e-4)
