# bash completion for edgecron
_edgecron() {
    local cur=${COMP_WORDS[COMP_CWORD]} line
    [[ $cur == = ]] && cur=''
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o filenames 2>/dev/null
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur") ;;
            :folders) compopt -o filenames 2>/dev/null
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$cur") ;;
            :users) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -u -- "$cur") ;;
            :commands) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur") ;;
            *) COMPREPLY+=("${line%% *}") ;;
        esac
    done < <(printf '%s\n' "${COMP_WORDS[@]:1:COMP_CWORD}" \
        | command edgecron completion --words 2>/dev/null)
}
complete -F _edgecron edgecron
