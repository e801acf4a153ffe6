# Sourced by study.sh and off_policy.sh.

keep() { # RUN LOG: what tables and pages are made of, without the names of this machine's directories
    mkdir -p "$2"
    cp "$1"/{metrics.jsonl,environment.json} "$2"
    sed "s#$PWD/##" "$1/config.yaml" > "$2/config.yaml"
}
