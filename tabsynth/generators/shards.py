"""Whose record is whose: PATE's teachers each have a shard of the table, for life (R15)."""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

Deal = Callable[[Tensor], tuple[Tensor, Tensor]]  # of rows: their order, and the teacher of each


def deal(rows: Tensor, teachers: int, key: np.ndarray) -> tuple[Tensor, Tensor]:
    """Records in an order of their own, and the teacher of each, shape (rows,) (R15).

    Parameters
    ----------
    rows : Tensor, shape (n, width)
    key : uint32 array, at most 16 words
        Drawn once, independent of all records.

    Formal guarantees
    -----------------
    A record's coin is a keyed hash (BLAKE2b) of what it holds and of its number among its equals; records
    are ordered by a hash of what they hold. Neither depends on its place in the table, nor on any record
    that is not its equal. So whatever the key, and whoever knows it, a record more or less, anywhere, is
    one record more or less in one shard, and leaves all others as they were, in order too.
    """
    secret = np.asarray(key, dtype="<u4").tobytes()
    held = [
        blake2b(row.tobytes(), key=secret, digest_size=16).digest()
        for row in np.ascontiguousarray(rows.cpu().numpy())
    ]
    order = sorted(range(len(held)), key=held.__getitem__)
    seen: Counter[bytes] = Counter()
    shard = np.empty(len(held), dtype=np.int64)
    for place, i in enumerate(order):
        coin = blake2b(held[i] + seen[held[i]].to_bytes(8, "little"), key=secret, digest_size=8)
        shard[place] = int.from_bytes(coin.digest(), "little") % teachers
        seen[held[i]] += 1
    return rows[order], torch.from_numpy(shard)
