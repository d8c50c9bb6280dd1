# The documentation of the libraries from a build in .build: for ops/docs and ops/test. Source it.

# Both libraries, each into a folder of .build. A warning is an error.
documentation() {
  local bin map maps=() module graphs catalogue
  bin=$(swift build --show-bin-path)
  # The modules of C that the libraries' modules name.
  while read -r map; do maps+=(-Xcc "-fmodule-map-file=$map"); done < <(
    find -L "$bin" -maxdepth 2 -name module.modulemap
    find Sources .build/checkouts/*/Sources -name module.modulemap
  )
  for module in Carillon CarillonTesting; do
    graphs=$scratch/symbols-$module
    rm -rf "$graphs"
    mkdir -p "$graphs"
    swift symbolgraph-extract -module-name "$module" -target "$(uname -m)-unknown-linux-gnu" -I "$bin/Modules" \
      "${maps[@]}" -minimum-access-level public -output-dir "$graphs" || return 1
    catalogue=()
    [[ ! -d Sources/$module/Documentation.docc ]] || catalogue=("Sources/$module/Documentation.docc")
    docc "${documentation_command:-convert}" "${catalogue[@]}" --additional-symbol-graph-dir "$graphs" \
      --fallback-display-name "$module" --fallback-bundle-identifier "$module" --warnings-as-errors \
      --output-path ".build/docs-$module" || return 1
  done
}
