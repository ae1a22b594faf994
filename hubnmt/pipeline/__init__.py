"""From texts to translations.

`Translator.translate` calls `Pipeline.translate`, which

1. segments each text (`segmentation`, `hubnmt.text.sentences`, `hubnmt.text.protected_spans`) and
   encodes its sentences (`hubnmt.text.tokenizer`);
2. searches: `hubnmt.inference.engine` batches sentences of similar length and runs
   `hubnmt.decoding.beam`, in which each step of the model (`hubnmt.model`, with the layers of
   `hubnmt.inference.fast_layers`) gives the log-probabilities of the next tokens, limited by
   `hubnmt.decoding.constraints`;
3. searches again for sentences that are degenerate or lost a name (`repair`);
4. joins the sentences of each text and checks the whole (`checks`).

`targets` is for translations that are given in part or whole, `alternatives` for single words.
"""
