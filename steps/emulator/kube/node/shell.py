"""The commands that `kubectl exec` may run: reimplemented over the pod's own files, never run by a host shell."""

from __future__ import annotations

import io
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grpo_wizard.steps.emulator.kube.node.pod_files import PodFiles

NOT_FOUND = 127


@dataclass
class CommandResult:
    """A command's output and exit code."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


def format_size(size: int) -> str:
    """Return `4.0K`, `17G`, as with -h."""
    if size < 1024:
        return str(size)
    value, unit = float(size), ""
    for unit in "KMGTP":  # noqa: B007 the unit that fits is used after the loop
        value /= 1024
        if value < 1024:
            break
    return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"


def _split(words: list[str]) -> tuple[set[str], list[str]]:
    """Return single-letter options (bundled or not) and operands."""
    flags = {
        letter
        for w in words
        if w.startswith("-") and not w.startswith("--") and len(w) > 1
        for letter in w[1:]
    }
    return flags, [w for w in words if not w.startswith("-") or w == "-"]


def _missing(command: str, path: str, verb: str = "cannot access") -> bytes:
    quoted = f"{verb} '{path}'" if verb else path
    return f"{command}: {quoted}: No such file or directory\n".encode()


def _ls(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    flags, paths = _split(words)
    result, paths = CommandResult(), paths or ["/"]
    for given in paths:
        path = files.absolute(given)
        if not files.exists(path):
            result.stderr, result.exit_code = result.stderr + _missing("ls", given), 2
            continue
        if len(paths) > 1 and files.is_folder(path) and "d" not in flags:
            result.stdout += f"{given}:\n".encode()
        result.stdout += _listing(files, path, given, flags)
    return result


def _listing(files: PodFiles, path: str, given: str, flags: set[str]) -> bytes:
    if not files.is_folder(path) or "d" in flags:
        return (_row(files, path, given) if "l" in flags else f"{given}\n").encode()
    names = [n for n in files.children(path) if "a" in flags or "A" in flags or not n.startswith(".")]
    head = path.rstrip("/")
    text = "".join(
        _row(files, f"{head}/{n}", n, human_sizes="h" in flags) if "l" in flags else f"{n}\n" for n in names
    )
    out = (f"total {len(names)}\n" if "l" in flags else "") + text
    if "R" in flags:
        for name in [n for n in names if files.is_folder(f"{head}/{n}")]:
            out += f"\n{head}/{name}:\n" + _listing(files, f"{head}/{name}", name, flags).decode(
                errors="replace"
            )
    return out.encode()


def _row(files: PodFiles, path: str, name: str, *, human_sizes: bool = False) -> str:
    found, folder = files.resolve(path), files.is_folder(path)
    when = time.strftime("%b %d %H:%M", time.gmtime(found.stat().st_mtime if found else 0))
    size = 4096 if folder else files.size(path)
    mode, shown = "drwxr-xr-x" if folder else "-rw-r--r--", format_size(size) if human_sizes else str(size)
    return f"{mode} 1 root root {shown} {when} {name}\n"


def _tree(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    depth = int(words[words.index("-L") + 1]) if "-L" in words[:-1] else 99
    operands = [w for i, w in enumerate(words) if not w.startswith("-") and (i == 0 or words[i - 1] != "-L")]
    given = operands[0] if operands else "/"
    path = files.absolute(given)
    if not files.is_folder(path):
        return CommandResult(f"{given}  [error opening dir]\n\n0 directories, 0 files\n".encode(), b"", 2)
    lines, counts = [given], [0, 0]
    _branch(files, path, "", depth, lines, counts)
    lines += ["", f"{counts[0]} directories, {counts[1]} files"]
    return CommandResult(("\n".join(lines) + "\n").encode())


def _branch(files: PodFiles, path: str, indent: str, depth: int, lines: list[str], counts: list[int]) -> None:
    names = files.children(path) if depth > 0 else []
    for i, name in enumerate(names):
        last, below = i == len(names) - 1, f"{path.rstrip('/')}/{name}"
        lines.append(f"{indent}{'└── ' if last else '├── '}{name}")
        folder = files.is_folder(below)
        counts[0 if folder else 1] += 1
        if folder:
            _branch(files, below, indent + ("    " if last else "│   "), depth - 1, lines, counts)


def _cat(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    _, paths = _split(words)
    result = CommandResult() if paths else CommandResult(stdin)
    for given in paths:
        path = files.absolute(given)
        if given == "-":
            result.stdout += stdin
        elif files.is_folder(path):
            result.stderr, result.exit_code = result.stderr + f"cat: {given}: Is a directory\n".encode(), 1
        elif not files.exists(path):
            result.stderr, result.exit_code = result.stderr + _missing("cat", given, ""), 1
        else:
            result.stdout += files.read(path)
    return result


def _head_or_tail(name: str) -> Callable[[PodFiles, list[str], bytes], CommandResult]:
    """head and tail."""

    def command(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
        count, by_bytes, paths = 10, False, []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word in ("-n", "-c", "--lines", "--bytes") and rest:
                count, by_bytes = int(rest.pop(0).lstrip("+")), word in ("-c", "--bytes")
            elif word.startswith("-") and word.lstrip("-n").isdigit():
                count = int(word.lstrip("-n"))
            elif word != "-f":
                paths.append(word)
        result = CommandResult()
        for given in paths or ["-"]:
            path = files.absolute(given)
            if given != "-" and (not files.exists(path) or files.is_folder(path)):
                what = "cannot open '{0}' for reading: No such file or directory"
                text = "error reading '{0}': Is a directory" if files.is_folder(path) else what
                result.stderr, result.exit_code = (
                    result.stderr + f"{name}: {text.format(given)}\n".encode(),
                    1,
                )
                continue
            data = stdin if given == "-" else files.read(path)
            pieces = [bytes([b]) for b in data] if by_bytes else data.splitlines(keepends=True)
            result.stdout += b"".join(
                pieces[:count] if name == "head" else pieces[max(0, len(pieces) - count) :]
            )
        return result

    return command


def _du(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    flags, paths = _split(words)
    result = CommandResult()
    for given in paths or ["/"]:
        path = files.absolute(given)
        if not files.exists(path):
            result.stderr, result.exit_code = result.stderr + _missing("du", given), 1
            continue
        result.stdout += "".join(_usage(files, path, given, flags)).encode()
    return result


def _usage(files: PodFiles, path: str, shown: str, flags: set[str]) -> Iterator[str]:
    """Return du's lines, children first; files only with -a, only the sum with -s."""
    for name in files.children(path) if files.is_folder(path) and "s" not in flags else ():
        below = f"{path.rstrip('/')}/{name}"
        if files.is_folder(below) or "a" in flags:
            yield from _usage(files, below, f"{shown.rstrip('/')}/{name}", flags)
    size = files.size(path)
    yield f"{format_size(size) if 'h' in flags else size if 'b' in flags else -(-size // 1024)}\t{shown}\n"


def _stat(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    if words[:1] == ["-c"] and len(words) > 2:
        form, paths = words[1], words[2:]
    else:
        form, paths = "  File: %n\n  Size: %s\t%F\nModify: %y", _split(words)[1]
    result = CommandResult()
    for given in paths:
        path = files.absolute(given)
        if not files.exists(path):
            result.stderr, result.exit_code = result.stderr + _missing("stat", given, "cannot statx"), 1
            continue
        found = files.resolve(path)
        when = found.stat().st_mtime if found else 0.0
        text = form
        for sign, value in (
            ("%n", given),
            ("%s", str(files.size(path))),
            ("%Y", str(int(when))),
            ("%F", "directory" if files.is_folder(path) else "regular file"),
            ("%y", time.strftime("%Y-%m-%d %H:%M:%S.000000000 +0000", time.gmtime(when))),
        ):
            text = text.replace(sign, value)
        result.stdout += f"{text}\n".encode()
    return result


def _apt(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    return CommandResult(
        b"Reading package lists... Done\nBuilding dependency tree... Done\n"
        b"0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"
    )


def _tar(files: PodFiles, words: list[str], stdin: bytes) -> CommandResult:
    """`tar cf - PATH`, which kubectl cp reads."""
    if not words or "c" not in words[0] or "-" not in words[1:]:
        return CommandResult(b"", b"tar: only `tar cf - PATH` is available in the emulator\n", 2)
    paths = [w for w in words[1:] if w != "-" and not w.startswith("-")]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for given in paths:
            path = files.absolute(given)
            if not files.exists(path):
                return CommandResult(
                    b"", f"tar: {given}: Cannot stat: No such file or directory\n".encode(), 2
                )
            _pack(files, path, archive)
    return CommandResult(buffer.getvalue())


def _pack(files: PodFiles, path: str, archive: tarfile.TarFile) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    if files.is_folder(path):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
        for name in files.children(path):
            _pack(files, f"{path.rstrip('/')}/{name}", archive)
    else:
        data = files.read(path)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


COMMANDS: dict[str, Callable[[PodFiles, list[str], bytes], CommandResult]] = {
    "ls": _ls,
    "tree": _tree,
    "cat": _cat,
    "head": _head_or_tail("head"),
    "tail": _head_or_tail("tail"),
    "du": _du,
    "stat": _stat,
    "apt": _apt,
    "apt-get": _apt,
    "tar": _tar,
}


def reads_stdin(argv: list[str]) -> bool:
    """Return whether a command reads standard input to its end."""
    return argv[:2] == ["bash", "-s"] or (
        argv[:1] in (["cat"], ["head"], ["tail"]) and not _split(argv[1:])[1]
    )


def run(files: PodFiles, argv: list[str], stdin: bytes = b"") -> CommandResult:
    """Run one allowed command; `bash -s` takes a script of allowed commands from standard input."""
    if argv[:2] == ["bash", "-s"]:
        return _script(files, stdin.decode(errors="replace"))
    command = COMMANDS.get(argv[0].removeprefix("/bin/").removeprefix("/usr/bin/")) if argv else None
    if command is None:
        name = argv[0] if argv else ""
        return CommandResult(
            b"",
            f"emulator: {name}: command not available ({', '.join(sorted(COMMANDS))}, bash -s)\n".encode(),
            NOT_FOUND,
        )
    try:
        return command(files, argv[1:], stdin)
    except (ValueError, IndexError, OSError) as error:
        return CommandResult(b"", f"{argv[0]}: {error}\n".encode(), 1)


def _script(files: PodFiles, text: str) -> CommandResult:
    total = CommandResult()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            return CommandResult(total.stdout, total.stderr + f"bash: line {number}: {error}\n".encode(), 2)
        if not words:
            continue
        one = run(files, words)
        if one.exit_code == NOT_FOUND:
            one.stderr = f"bash: line {number}: {words[0]}: command not found\n".encode()
        total = CommandResult(total.stdout + one.stdout, total.stderr + one.stderr, one.exit_code)
    return total
