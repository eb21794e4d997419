"""Stop strings: any cut into tokens, any stops, any ending (E14)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teachkv.text import ByteTokenizer, StopMatcher, TextStream
from teachkv.text.tokenizer import AnyTokenizer


class Pieces(AnyTokenizer):
    """Each token is a piece of text given beforehand."""

    def __init__(self, pieces):
        self.pieces, self.vocab_size = pieces, len(pieces)

    def token_bytes(self, token):
        piece = self.pieces[token]
        return piece if isinstance(piece, bytes) else piece.encode()

    def is_special(self, token):
        return False

    special_tokens, adds_bos = {}, False

    def encode(self, text, *, add_special=True, parse_special=False):
        raise NotImplementedError

    encode_marked = encode


def expected(text, stops):
    """Character by character: (text that is shown, stop), the slow way."""
    for end in range(1, len(text) + 1):
        done = [stop for stop in stops if text[:end].endswith(stop)]
        if done:
            stop = max(done, key=len)
            return text[: end - len(stop)], stop
    return text, None


def run(pieces, stops, ending="length", **more):
    stream = TextStream(Pieces(pieces), stops, **more)
    shown = []
    for token in range(len(pieces)):
        shown.append(stream.push(token))
        if stream.stopped is not None:
            ending = "stop"
            break
    shown.append(stream.finish(ending))
    assert "".join(shown) == stream.text
    return stream, shown


def cuts(text):
    for places in itertools.product([False, True], repeat=len(text) - 1):
        pieces, start = [], 0
        for place, cut in enumerate(places, 1):
            if cut:
                pieces.append(text[start:place])
                start = place
        yield [*pieces, text[start:]]


STOPS = [["cd"], ["bcx"], ["d\nLONG"], ["cd", "bcx", "d\nLONG"], ["abab", "b"], ["abcabd", "zz", "cabc"]]


@pytest.mark.parametrize("stops", STOPS)
@pytest.mark.parametrize("ending", ["stop", "length", "abort"])
@pytest.mark.case("ggml-org/llama.cpp#10914")
def test_all_cuts_of_a_text_give_one_answer(stops, ending):
    for text in ("ababcabcabdz", "abcdbcbcabca", "xxabcabdd\nLO"):
        want = expected(text, stops)
        for pieces in cuts(text):
            stream, shown = run(pieces, stops, ending)
            assert (stream.text, stream.stopped) == want
            for length in range(len(shown)):  # nothing shown is ever taken back
                assert want[0].startswith("".join(shown[:length]))


@given(
    text=st.text(alphabet="abc", max_size=14),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3),
    data=st.data(),
)
@pytest.mark.case("ggml-org/llama.cpp#10914")
def test_any_text_any_stops(text, stops, data):
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)) | {0, len(text)})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    stream, _ = run(pieces, stops)
    assert (stream.text, stream.stopped) == expected(text, stops)


@pytest.mark.kills("flush-held/forgotten", "flush-held/only-at-eos", "hold-back/holds-all", "hold-back/leaks-half")
def test_exactly_the_longest_possible_beginning_is_held():
    stream = TextStream(Pieces(["ab", "ab", "c", "x", "a"]), ["ababd", "bz"])
    assert [stream.push(i) for i in range(5)] == ["", "", "ababc", "x", ""]
    assert stream.finish("length") == "a"
    matcher = StopMatcher(["aab", "ba"])
    held = []
    for char in "aaaacb":
        assert matcher.feed(char) is None
        held.append(matcher.held)
    assert held == [1, 2, 2, 2, 0, 1]


def test_found_at_once_and_also_on_the_last_token():
    stream, shown = run(["ab", "c", "d"], ["cd", "bcx", "d\nLONG"])
    assert (stream.stopped, stream.text) == ("cd", "ab")
    assert shown == ["a", "", "b", ""]
    whole, _ = run(["abcd and more"], ["cd"])
    assert whole.text == "ab"


def test_the_stop_string_can_stay_in_the_text():
    stream, shown = run(["ab", "c", "d!"], ["cd"], include_stop=True)
    assert (stream.text, shown) == ("abcd", ["ab", "", "cd", ""])


def test_stops_within_the_first_min_tokens_do_not_count():
    stream, _ = run(["cd", "cd", "c", "d"], ["cd"], min_tokens=2)
    assert (stream.text, stream.stopped) == ("cdcd", "cd")
    stream, _ = run(["c", "d", "cd"], ["cd"], min_tokens=1)
    assert (stream.text, stream.stopped) == ("cd", "cd")


def test_a_stop_of_several_bytes_is_found_across_byte_tokens():
    tokenizer = ByteTokenizer()
    for stop in ("é", "日本", "👩"):
        stream = TextStream(tokenizer, [stop])
        shown = []
        for token in tokenizer.encode(f"x{stop}y"):
            shown.append(stream.push(token))
            if stream.stopped:
                break
        assert ("".join(shown), stream.stopped) == ("x", stop)


def test_no_token_is_accepted_after_the_end_and_finishing_twice_is_finishing_once():
    stream = TextStream(Pieces(["ab", "x"]), ["xy"])
    stream.push(1)
    assert [stream.finish("length"), stream.finish("length")] == ["x", ""]
    with pytest.raises(RuntimeError, match="after the text had ended"):
        stream.push(0)
    stream = TextStream(Pieces(["ab", "x"]), ["b"])
    stream.push(0)
    with pytest.raises(RuntimeError, match="after the text had ended"):
        stream.push(1)
