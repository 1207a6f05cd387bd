"""The entropy source: fresh, never repeated across forks and threads, never seedable."""

from __future__ import annotations

import inspect
import os
import pickle
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallystick.mechanisms.exact import randomness
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource, SystemSource


def test_words_do_not_repeat_and_look_fair() -> None:
    words = SYSTEM.words(200_000)
    assert len(np.unique(words)) == len(words)
    ones = int(np.unpackbits(words.view(np.uint8)).sum())
    assert abs(ones - 64 * 100_000) < 7 * np.sqrt(64 * 200_000) / 2


def test_small_and_large_reads_never_hand_out_the_same_bytes_twice() -> None:
    source = SeededSource(9)
    whole = bytes(SeededSource(9).read(16_384))
    pieces = b"".join(bytes(source.read(n)) for n in (1, 7, 8, 1000, 3000))
    assert whole.startswith(pieces)
    chunks = [bytes(SYSTEM.read(16)) for _ in range(5000)]
    assert len(set(chunks)) == len(chunks)


def test_an_array_stays_what_it_was_when_more_is_drawn() -> None:
    first = SYSTEM.words(4)
    copy = first.copy()
    for _ in range(5000):
        SYSTEM.words(4)
    assert (first == copy).all()


def test_a_forked_child_draws_different_bits() -> None:
    SYSTEM.words(1)  # the parent has a stream to inherit
    reads, writes = os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os.write(writes, bytes(SYSTEM.read(32)))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    drawn = [os.read(reads, 32) for _ in children] + [bytes(SYSTEM.read(32))]
    os.close(reads)
    os.close(writes)
    assert len(set(drawn)) == 4


def test_a_source_without_the_fork_guard_would_have_been_caught() -> None:
    naive = SeededSource(1)
    naive.read(1)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, bytes(naive.read(32)))
        os._exit(0)
    os.waitpid(child, 0)
    inherited = os.read(reads, 32)
    os.close(reads)
    os.close(writes)
    assert inherited == bytes(naive.read(32))


def test_the_process_id_alone_also_discards_an_inherited_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SystemSource()
    source.read(8)
    before = source._local.stream
    monkeypatch.setattr(randomness.os, "getpid", lambda: -1)
    source.read(8)
    assert source._local.stream is not before


def test_threads_draw_different_bits_and_do_not_corrupt_each_other() -> None:
    seen: list[bytes] = []
    lock = threading.Lock()

    def draw() -> None:
        mine = [bytes(SYSTEM.read(16)) for _ in range(2000)]
        with lock:
            seen.extend(mine)

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 16_000 == len(set(seen))


def test_the_stream_is_keyed_afresh_after_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "REKEY_BYTES", 1 << 15)
    source = SystemSource()
    source.read(1 << 15)
    before = source._local.stream
    source.read(8)
    assert source._local.stream is not before


def test_the_stream_is_the_keystream_of_aes_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    # GCM of zeros is CTR from the block nonce || 2 on (NIST SP 800-38D, 7.1: block 1 is for the tag).
    key, nonce = bytes(range(32)), bytes(range(12))
    monkeypatch.setattr(randomness.os, "urandom", lambda count: key if count == 32 else nonce[:count])
    source = SystemSource()
    mine = b"".join(bytes(source.read(count)) for count in (5, 100_000, 3_000_000))
    plain = Cipher(algorithms.AES(key), modes.CTR(nonce + (2).to_bytes(4, "big"))).encryptor()
    stream = plain.update(bytes(4_000_000))
    assert mine[:5] == stream[:5]
    assert mine[5:] == stream[1 << 14 : (1 << 14) + 3_100_000]  # after a buffer of 2^14 bytes


def test_production_randomness_takes_no_seed_and_does_not_travel() -> None:
    assert list(inspect.signature(SystemSource).parameters) == []
    assert pickle.loads(pickle.dumps(SYSTEM)) is SYSTEM


def test_seeded_bits_repeat_and_say_that_they_are_not_private() -> None:
    assert (SeededSource(3).words(1000) == SeededSource(3).words(1000)).all()
    assert (SeededSource(3).words(10) != SeededSource(4).words(10)).any()
    assert not SeededSource(3).private
    assert SYSTEM.private


@pytest.mark.parametrize("count", [1, 3, 8, 64, 65, 200])
def test_bits_fill_their_range(count: int) -> None:
    drawn = [SYSTEM.bits(count) for _ in range(400)]
    assert all(0 <= b < 1 << count for b in drawn)
    assert max(drawn) >= 1 << (count - 1) > min(drawn)
