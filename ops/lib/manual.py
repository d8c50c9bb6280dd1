"""Writes manual pages from what `carillon --experimental-dump-help` says.

    carillon --experimental-dump-help | python3 manual.py FOLDER VERSION DATE

One page for the command and one for each of its subcommands, which has theirs as sections.
"""

import json
import pathlib
import sys


def escaped(text):
    """Text as troff prints it: hyphens as they are typed, and no line that is taken for a request."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def paragraphs(text):
    """Examples are indented by two blanks, and stay as they are."""
    for paragraph in (text or "").split("\n\n"):
        for line in paragraph.split("\n"):
            if line.startswith("  "):
                yield f".nf\n.RS 4\n{escaped(line[2:])}\n.RE\n.fi"
            else:
                yield escaped(line)
        yield ".PP"


def name_of(name):
    return ("-" if name["kind"] == "short" else "--") + name["name"]


def flag(argument):
    value = f" \\fI{escaped(argument['valueName'])}\\fR" if argument["kind"] == "option" else ""
    if argument["kind"] == "positional":
        return f"\\fI{escaped(argument['valueName'])}\\fR"
    names = ", ".join(f"\\fB{escaped(name_of(name))}\\fR" for name in argument["names"])
    return names + value


def synopsis(command, path):
    parts = [f"\\fB{escaped(' '.join(path))}\\fR"]
    for argument in shown(command):
        text = flag({**argument, "names": [argument["preferredName"]]} if argument.get("preferredName") else argument)
        if argument["isRepeating"]:
            text += " ..."
        parts.append(f"[{text}]" if argument["isOptional"] else text)
    if command.get("subcommands"):
        parts.append("\\fIsubcommand\\fR")
    return " ".join(parts)


def shown(command):
    """Without what every command has; the page of the whole command says it."""
    return [
        argument for argument in command.get("arguments", [])
        if argument["shouldDisplay"] and argument["valueName"] not in ("help", "version")]


def flags(command):
    title = None
    for argument in shown(command):
        if argument.get("sectionTitle") != title:
            title = argument.get("sectionTitle")
            if title:
                yield f".PP\n\\fI{escaped(title)}\\fR"
        yield f".TP\n{flag(argument)}\n{escaped(argument.get('abstract') or '')}"


def page(command, path, version, date):
    yield f".TH {'-'.join(path).upper()} 1 {date} \"carillon {version}\" Carillon"
    yield f".SH NAME\n{escaped('-'.join(path))} \\- {escaped(command['abstract'])}"
    yield f".SH SYNOPSIS\n{synopsis(command, path)}"
    if command.get("discussion"):
        yield ".SH DESCRIPTION"
        yield from paragraphs(command["discussion"])
    if shown(command):
        yield ".SH OPTIONS"
        yield from flags(command)
    children = command.get("subcommands", [])
    if len(path) == 1:
        yield ".SH OPTIONS"
        yield ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nExplains a command; every command has it."
        yield ".TP\n\\fB\\-\\-version\\fR\nSays what the program was built from."
        yield ".SH COMMANDS"
        for child in children:
            yield f".TP\n\\fB{escaped('-'.join(path + [child['commandName']]))}\\fR(1)\n{escaped(child['abstract'])}"
        return
    for child in children:
        yield from section(child, path + [child["commandName"]])
    yield f".SH SEE ALSO\n\\fB{path[0]}\\fR(1)"


def section(command, path):
    yield f".SH {escaped(' '.join(path[1:])).upper()}\n{synopsis(command, path)}\n.PP\n{escaped(command['abstract'])}\n.PP"
    yield from paragraphs(command.get("discussion"))
    yield from flags(command)
    for child in command.get("subcommands", []):
        yield from section(child, path + [child["commandName"]])


def main(folder, version, date):
    command = json.load(sys.stdin)["command"]
    command["subcommands"] = [child for child in command["subcommands"] if child["commandName"] != "help"]
    folder = pathlib.Path(folder)
    for found in [command] + command["subcommands"]:
        path = [command["commandName"]] + ([] if found is command else [found["commandName"]])
        text = "\n".join(page(found, path, version, date)) + "\n"
        (folder / f"{'-'.join(path)}.1").write_text(text)


main(*sys.argv[1:])
