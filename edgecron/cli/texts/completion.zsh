#compdef edgecron
_edgecron() {
    local line
    local -a found shown
    for line in "${(@f)$(print -rl -- "${(@Q)words[2,CURRENT]}" \
            | command edgecron completion --words 2>/dev/null)}"; do
        case $line in
            '') ;;
            :files) _files ;;
            :folders) _files -/ ;;
            :users) _users ;;
            :commands) _command_names -e ;;
            *) found+=("${line%% *}")
                shown+=("${line/ /  }") ;;
        esac
    done
    [[ $words[CURRENT] == --*=* ]] && compset -P '*='
    compadd -l -d shown -a found
}
# Read from fpath, this file is the function; by eval, the function has to be registered.
if [ "$funcstack[1]" = _edgecron ]; then _edgecron "$@"
else compdef _edgecron edgecron; fi
