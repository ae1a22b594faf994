import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hubnmt.ui.services.runtime import N_ARENAS

THREADS = """
import ctypes, sys, threading
from hubnmt.ui.services.runtime import share_arenas

if sys.argv[1] == "shared":
    share_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
all_here = threading.Barrier(8)

def allocate():
    all_here.wait()
    libc.malloc(1000)
    all_here.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def count_arenas(how: str, path: Path, repo: Path) -> int:
    command = [sys.executable, "-c", THREADS, how, str(path)]
    subprocess.run(command, check=True, cwd=repo)
    return len(re.findall("<heap nr=", path.read_text(encoding="utf-8")))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_their_arenas(repo: Path, tmp_path: Path) -> None:
    assert count_arenas("apart", tmp_path / "apart.xml", repo) > N_ARENAS
    assert count_arenas("shared", tmp_path / "shared.xml", repo) <= N_ARENAS
