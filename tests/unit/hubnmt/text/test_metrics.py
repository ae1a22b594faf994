"""Metrics: sacreBLEU, called directly, says the same, and the signature says how."""

import sacrebleu

from hubnmt.text.metrics import score_corpus

REFERENCES = [
    "A dog is running in the snow.",
    "Two men are at the stove preparing food.",
    "A little girl climbs into a wooden playhouse.",
    "A woman in blue rides a bicycle down the street.",
]
HYPOTHESES = [
    "A dog runs in the snow.",
    "Two men are standing at the stove and prepare food.",
    "a little girl climbs into a playhouse , made of wood",
    "A woman in blue rides a bike down the street.",
]


def test_scores_are_sacrebleus_and_the_signature_names_every_choice() -> None:
    scores = score_corpus(HYPOTHESES, REFERENCES)
    bleu = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    chrf = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    chrf_plus_plus = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score
    assert (scores.bleu, scores.chrf, scores.chrf_plus_plus) == (bleu, chrf, chrf_plus_plus)
    assert len({bleu, chrf, chrf_plus_plus}) == 3
    assert scores.n == 4
    version = f"version:{sacrebleu.__version__}"
    expected = {"nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", version}
    assert set(scores.bleu_signature.split("|")) == expected
    expected = {"nrefs:1", "case:mixed", "eff:yes", "nc:6", "nw:0", "space:no", version}
    assert set(scores.chrf_signature.split("|")) == expected
