# %% [markdown]
"""# A tour of hubnmt: from a German sentence to an English one, every number in sight.

For readers who know Python and have read "Attention Is All You Need" (Vaswani et al. 2017,
https://arxiv.org/abs/1706.03762). What is computed by hand is compared with the library by
`torch.testing.assert_close`, which raises an error if the two differ.

How to open it: in VS Code (Python and Jupyter extensions) each `# %%` is a cell to run; JupyterLab
with Jupytext opens it by "Open With > Notebook"; `jupytext --to ipynb tour.py` makes a notebook of
it; and `python hubnmt/docs/tour.py` prints everything in a few seconds.

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
from hubnmt.decoding.greedy import greedy_search
from hubnmt.decoding.types import Continuation, Step, run_search
from hubnmt.inference.model_step import ModelStep
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.model.embedding import sinusoidal_positions
from hubnmt.model.layers import EncoderLayer
from hubnmt.model.transformer import Transformer

torch.manual_seed(0)
torch.set_grad_enabled(False)  # only the training step below needs gradients

translator = Translator.from_pretrained("de-en-multi30k")  # comes with hubnmt, no download
model, config = translator.model, translator.config
tokenizer = translator.tokenizers.src  # this model has one vocabulary for both languages
pad_id, bos_id, eos_id = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id

SENTENCE = "Zwei Hunde rennen und spielen im Schnee."
print(translator.translate(SENTENCE).text)
print(f"D = {config.d_model}, H = {config.n_heads}, F = {config.d_ff}, V = {config.src_vocab_size}")
print(f"{sum(p.numel() for p in model.parameters()):,} parameters in all, of which")
print(f"{model.src_embedding.weight.numel():,} are the embedding, which is the output matrix too")

# %% [markdown]
# ## 1. Text to pieces
# The vocabulary was learned by byte-pair encoding: a word starts as single bytes, and pairs of
# neighbours are merged in the order in which training found them to be frequent. Frequent words
# end as one piece, rare words as several, and no text is ever unknown.

# %%
for pieces in tokenizer.merge_steps(" Hundeschlitten"):  # "dog sled"; the space belongs to it
    print(" | ".join(piece.decode("utf-8", errors="replace") for piece in pieces))

# %%
src_rows = [tokenizer.encode(text) for text in (SENTENCE, "Zwei Hundeschlitten 🐕")]
for row in src_rows:
    print(list(zip(row, tokenizer.readable(row), strict=True)))
assert tokenizer.decode(src_rows[0]) == SENTENCE  # pieces are the text: nothing is lost

# %% [markdown]
# Sentences of a batch are padded to one length. The decoder reads the target one position behind
# what it must predict: `tgt_in` begins with `<bos>`, `tgt_out` ends with `<eos>`.

# %%
src_ids, src_pad_mask = batch_sources(src_rows, pad_id=pad_id, eos_id=eos_id)  # (B, S) each
print("src_ids", tuple(src_ids.shape), "padding per sentence:", src_pad_mask.sum(1).tolist())

TRANSLATION = "Two dogs are running and playing in the snow."
tgt_row = tokenizer.encode(TRANSLATION)
tgt_in, tgt_out, _ = batch_targets([tgt_row], pad_id=pad_id, bos_id=bos_id, eos_id=eos_id)
for read, predicted in zip(tgt_in[0].tolist(), tgt_out[0].tolist(), strict=True):
    print(*(f"{piece!r:12}" for piece in tokenizer.readable([read, predicted])), sep=" -> ")

# %% [markdown]
# ## 2. One encoder layer by hand
# Section 3.4 and 3.5 of the paper: rows of the embedding times sqrt(D), plus the position pattern.

# %%
B, S = src_ids.shape
D, H = config.d_model, config.n_heads
E = D // H
x = model.src_embedding.weight[src_ids] * math.sqrt(D)  # (B, S, D)
positions = sinusoidal_positions(0, S, D)  # (S, D)
x = x + positions  # (B, S, D)
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
for name, tensor in {"q": q, "weights": weights, "mixed": mixed, "merged": merged}.items():
    print(f"{name:8}", tuple(tensor.shape))
assert_close(attended, attention(q, k, v, attn_mask=may_look)[0])

# %%
x1 = x + attended  # (B, S, D): the residual connection
ff = layer.feed_forward
inner = (layer.ff_residual.norm(x1) @ ff.linear1.weight.T + ff.linear1.bias).relu()  # (B, S, F)
x2 = x1 + inner @ ff.linear2.weight.T + ff.linear2.bias  # (B, S, D)
by_library, library_weights = layer(x, may_look, need_weights=True)
assert_close(x2, by_library)
assert_close(weights, library_weights)
print(f"layer 0 by hand equals the library's; the ReLU lets {(inner > 0).float().mean():.0%} pass")

# %% [markdown]
# The encoder is this layer `n_encoder_layers` times, then a last norm. Padding must not count:
# the first sentence alone and the first sentence of the batch have the same encoding.

# %%
memory = model.encode(src_ids, src_pad_mask)  # (B, S, D)
n_real = len(src_rows[0]) + 1  # with <eos>
src_alone, mask_alone = batch_sources(src_rows[:1], pad_id=pad_id, eos_id=eos_id)  # (1, S) each
assert_close(memory[:1, :n_real], model.encode(src_alone, mask_alone))

# %% [markdown]
# ## 3. Attention of a sentence
# The decoder may look at the source as it likes, but in the target only back. So all positions can
# be trained at once: changing a later token leaves what is said before it as it was.

# %%
print(torch.ones(5, 5).tril().int())  # row: who looks; column: at whom; 1: may look
changed = tgt_in.clone()
changed[0, 6:] = bos_id
logits = model(src_alone, tgt_in, mask_alone)  # (1, T, V)
assert_close(logits[:, :6], model(src_alone, changed, mask_alone)[:, :6])

# %%
logits, maps = model.attend(src_alone, tgt_in, mask_alone)
print("cross-attention", tuple(maps.cross_attn.shape))  # (1, L, H, T, S)
assert_close(maps.cross_attn.sum(-1), torch.ones(maps.cross_attn.shape[:-1]))

# %% [markdown]
# One head links words best; which one was measured when the model was published. In this head a
# word is linked one step after it was chosen, when it is the decoder's input (`alignment_shift`).

# %%
assert config.alignment_head is not None
head_layer, head = config.alignment_head
cross = maps.cross_attn[0, head_layer, head]  # (T, S)
src_words = tokenizer.readable([*src_rows[0], eos_id])  # here each word is one piece
for t, word in enumerate(tokenizer.readable(tgt_row)):
    looked = cross[t + config.alignment_shift]  # (S,)
    print(f"{word.strip():>10} <- {src_words[int(looked.argmax())].strip()} {looked.max():.2f}")
for link in translator.attend(SENTENCE, TRANSLATION).word_alignment():  # the same by the library
    print(f"{TRANSLATION[slice(*link.tgt)]} <- {SENTENCE[slice(*link.src)]} {link.weight:.2f}")

# %% [markdown]
# ## 4. A training step
# Section 5.4: with label smoothing e the model is asked for 1 - e on the right piece and e spread
# evenly over all V. The loss is then (1 - e) times the negative log-likelihood plus e times the
# mean of all -log p.

# %%
SMOOTHING, V = 0.1, config.tgt_vocab_size
log_probs = logits[0].log_softmax(-1)  # (T, V)
nll = -log_probs.gather(1, tgt_out[0, :, None])[:, 0]  # (T,)
by_hand = ((1 - SMOOTHING) * nll + SMOOTHING * -log_probs.mean(-1)).mean()
assert_close(by_hand, functional.cross_entropy(logits[0], tgt_out[0], label_smoothing=SMOOTHING))
print(f"trained: {by_hand:.2f}, guessing evenly: ln V = {math.log(V):.2f}")

# %% [markdown]
# A new, small model with random weights learns four pairs by heart. The optimizer is the paper's
# (section 5.3): Adam, with a rate that rises for some steps and then falls as 1 / sqrt(step).

# %%
PAIRS = {
    "Ein Hund läuft.": "A dog runs.",
    "Eine Katze schläft.": "A cat sleeps.",
    "Zwei Kinder spielen Fußball.": "Two children play soccer.",
    "Ein Mann liest im Park.": "A man reads in the park.",
}
small_config = dataclasses.replace(config, d_model=64, n_encoder_layers=2, n_decoder_layers=2)
small = Transformer(small_config)
sources = batch_sources([tokenizer.encode(s) for s in PAIRS], pad_id=pad_id, eos_id=eos_id)
targets = batch_targets(
    [tokenizer.encode(t) for t in PAIRS.values()], pad_id=pad_id, bos_id=bos_id, eos_id=eos_id
)
optimizer = torch.optim.Adam(small.parameters(), betas=(0.9, 0.98), eps=1e-9)
N_STEPS, WARMUP_STEPS = 60, 30
losses = []
small.train()  # dropout on
for step_number in range(1, N_STEPS + 1):
    rate = 0.2 * 64**-0.5 * min(step_number**-0.5, step_number * WARMUP_STEPS**-1.5)
    optimizer.param_groups[0]["lr"] = rate
    with torch.enable_grad():
        logits = small(sources.src_ids, targets.tgt_in, sources.src_pad_mask)  # (B, T, V)
        loss = functional.cross_entropy(
            logits.flatten(0, 1),  # (B T, V)
            targets.tgt_out.flatten(),  # (B T,)
            ignore_index=pad_id,  # padding does not count
            label_smoothing=SMOOTHING,
        )
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    norm = torch.nn.utils.clip_grad_norm_(small.parameters(), 1.0)
    optimizer.step()
    if step_number == 1 or step_number % 10 == 0:
        print(f"step {step_number:2}  rate {rate:.4f}  gradient norm {norm:5.2f}  loss {loss:.2f}")
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2

# %%
small.eval()  # dropout off
said = small(sources.src_ids, targets.tgt_in, sources.src_pad_mask).argmax(-1)  # (B, T)
for text, row in zip(PAIRS, said.tolist(), strict=True):
    print(f"{text:30} {tokenizer.decode(row[: row.index(eos_id)] if eos_id in row else row)}")

# %% [markdown]
# ## 5. A search step by step
# A search knows the model only as a `Step`: `step(last_ids)` takes the newest token of each of the
# W hypotheses, (B, W), and returns log-probabilities of what comes next, (B, W, V);
# `step.reorder(parents)` says which hypothesis each new one continues. Keys and values of earlier
# positions are kept inside, so each step computes one position.


# %%
def start() -> Step:
    """Encode the sentence for a new search; padding and `<bos>` are never said."""
    return ModelStep(model, src_alone, mask_alone, forbidden_ids=(pad_id, bos_id))


def show(ids: list[int]) -> str:
    """Return tokens as text, `<eos>` visible."""
    return "".join(tokenizer.readable(ids)).strip()


def greedy(step: Step, max_tokens: int) -> tuple[list[int], float]:
    """Say the most probable piece until it is `<eos>`."""
    ids, total = [bos_id], 0.0
    while ids[-1] != eos_id and len(ids) <= max_tokens:
        log_probs = step(torch.tensor([ids[-1:]]))[0, 0]  # (V,)
        best, pieces = log_probs.topk(3)
        top = zip(pieces.tolist(), best.exp().tolist(), strict=True)
        shares = (f"{show([piece])!r} {share:.2f}" for piece, share in top)
        print(f"{show(ids[1:]):60}", *shares, sep=" | ")
        ids, total = [*ids, int(pieces[0])], total + float(best[0])
    return ids[1:], total


MAX_TOKENS = 30
greedy_ids, greedy_log_prob = greedy(start(), MAX_TOKENS)

# %% [markdown]
# Beam search keeps the W most probable beginnings. Among the best 2 W continuations at most W end,
# so W that go on are always left. What has ended is ranked by log-probability per token
# (`length_penalty` = 1), because a plain sum prefers short sentences. The first step has one
# hypothesis only: W equal ones would stay equal.

# %%
BEAM_SIZE = 3
cap = torch.tensor([MAX_TOKENS])  # (B,)
live = [[bos_id]]


def print_step(considered: list[Continuation]) -> None:
    """Print what one step of the library's search considers, and what becomes of it."""
    kept = []
    for each in considered:
        ids = [*live[each.parent], each.token]
        print(f"{len(ids) - 1:2} {each.status:8} {each.rank:7.2f}  {show(ids[1:])}")
        kept += [ids] if each.status == "kept" else []
    live[:] = kept


search = beam_search(
    start(),
    bos_id=bos_id,
    eos_id=eos_id,
    max_tgt_tokens=cap,
    beam_size=BEAM_SIZE,
    observe=print_step,
)
by_beam = run_search(search)[0][0]  # a search yields its tokens and returns its hypotheses

# %% [markdown]
# Greedy search took the most probable piece at every step and still ended with the less probable
# sentence: at the third piece it had to choose, where the beam kept both. And a search can be
# checked without another one: teacher forcing over the finished sentence must give the same
# log-probability.

# %%
print(f"greedy {greedy_log_prob / len(greedy_ids):.4f}  {show(greedy_ids)}")
print(f"beam   {by_beam.score:.4f}  {show(by_beam.ids)}")
search = greedy_search(start(), bos_id=bos_id, eos_id=eos_id, max_tgt_tokens=cap)
((by_greedy,),) = run_search(search)
assert [*by_greedy.ids, eos_id] == greedy_ids
assert_close(by_greedy.log_prob, greedy_log_prob, rtol=1e-4, atol=1e-4)
assert by_beam.score >= by_greedy.score

tgt_in = torch.tensor([[bos_id, *by_beam.ids]])  # (1, T)
tgt_out = torch.tensor([[*by_beam.ids, eos_id]])  # (1, T)
log_probs = model(src_alone, tgt_in, mask_alone).log_softmax(-1)  # (1, T, V)
replayed = log_probs.gather(2, tgt_out[:, :, None]).sum().item()  # all positions in one pass
assert_close(replayed, by_beam.log_prob, rtol=1e-4, atol=1e-4)
whole = translator.translate(SENTENCE, beam_size=BEAM_SIZE, length_penalty=1.0)
assert whole.text == tokenizer.decode(by_beam.ids)
