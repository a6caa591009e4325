
# An account as IAM names it.
member_of() {
  case "$1" in
    *.gserviceaccount.com) printf 'serviceAccount:%s' "$1" ;;
    *) printf 'user:%s' "$1" ;;
  esac
}
