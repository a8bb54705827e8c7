# fish completion for edgecron
function __edgecron_words
    set -l current (commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' "$current")
    set -l words (commandline -opc)[2..-1] "$current"
    for line in (printf '%s\n' $words | command edgecron completion --words 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case :users
                __fish_complete_users
            case :commands
                __fish_complete_command
            case '*'
                string replace -- ' ' \t "$option$line"
        end
    end
end
complete -c edgecron -f -a '(__edgecron_words)'
