#!/bin/sh
# Writes BuiltFacts.swift: the commit of the package in folder $1, and its packages, into folder $2.
# Nothing is known of a package that is not a repository. The file is touched only if it changes.
set -eu
package=$1 folder=$2

# Whoever builds it trusts it, whose ever the folder is.
git() { command git -c safe.directory='*' -C "$package" "$@"; }
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || commit=
changed=false
if [ -n "$commit" ]; then git diff --quiet HEAD -- 2>/dev/null || changed=true; fi

{
  printf 'internal import PushServer\n\nextension ProgramFacts {\n'
  printf '  static let built = ProgramFacts(commit: "%s", isChanged: %s, packages: [\n' "$commit" "$changed"
  [ ! -f "$package/Package.resolved" ] || awk -F '"' '
    $2 == "identity" { name = $4 }
    $2 == "version" && NF > 3 { printf "    (\"%s\", \"%s\"),\n", name, $4 }
  ' "$package/Package.resolved"
  printf '  ])\n}\n'
} > "$folder/BuiltFacts.new"
if cmp -s "$folder/BuiltFacts.new" "$folder/BuiltFacts.swift"; then
  rm "$folder/BuiltFacts.new"
else
  mv "$folder/BuiltFacts.new" "$folder/BuiltFacts.swift"
fi
