lustre() { gcloud lustre instances describe "${LUSTRE}" --location="${ZONE}" --format="value($1)"; }
lustre_is_active() { [[ "$(lustre state)" == ACTIVE ]]; }
wait_for 7200 "Lustre (usually 40 to 80 minutes)" lustre_is_active
LUSTRE_IP="$(lustre mountPoint)"
LUSTRE_IP="${LUSTRE_IP%%@*}"
say "Lustre is at ${LUSTRE_IP}"
