import itertools

import pytest

from hubnmt.text.languages import NAMES
from hubnmt.ui.services.examples import CAPTIONS, EVERYDAY, examples


def test_every_language_with_examples_has_a_name():
    assert set(EVERYDAY) | set(CAPTIONS) <= set(NAMES)


def test_a_language_without_examples_has_none():
    assert examples("de-AT") == examples("de")
    assert examples("tlh") == ()


@pytest.mark.parametrize("tag", sorted(CAPTIONS))
def test_everyday_sentences_come_first_and_a_caption_last(tag: str):
    *everyday, caption = examples(tag, "Tatoeba test")
    assert tuple(everyday) == EVERYDAY[tag]
    assert caption in CAPTIONS[tag]


def test_a_model_of_captions_is_shown_captions():
    assert examples("de", "Multi30k test_2016_flickr") == CAPTIONS["de"]
    assert examples("en", "COCO en-ml test") == CAPTIONS["en"]
    assert examples("nl", "Multi30k") == EVERYDAY["nl"]  # better than none


def test_no_sentence_stands_there_twice_or_is_cut_by_its_button():
    everything = [*itertools.chain(*EVERYDAY.values(), *CAPTIONS.values())]
    assert len(set(everything)) == len(everything)
    assert all(each == each.strip() and len(each) <= 60 for each in everything)
