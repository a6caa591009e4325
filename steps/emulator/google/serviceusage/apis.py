"""The APIs that can be enabled here, with their titles, and those of a new project.

Source: https://docs.cloud.google.com/service-usage/docs/enabled-service, 2026-11.
"""

from __future__ import annotations

# https://docs.cloud.google.com/service-usage/docs/enabled-service, "Services enabled by default"
DEFAULT_APIS = {
    "analyticshub.googleapis.com": "Analytics Hub API",
    "bigquery.googleapis.com": "BigQuery API",
    "bigqueryconnection.googleapis.com": "BigQuery Connection API",
    "bigquerydatapolicy.googleapis.com": "BigQuery Data Policy API",
    "bigquerymigration.googleapis.com": "BigQuery Migration API",
    "bigqueryreservation.googleapis.com": "BigQuery Reservation API",
    "bigquerystorage.googleapis.com": "BigQuery Storage API",
    "cloudapis.googleapis.com": "Google Cloud APIs",
    "cloudtrace.googleapis.com": "Cloud Trace API",
    "dataform.googleapis.com": "Dataform API",
    "dataplex.googleapis.com": "Cloud Dataplex API",
    "datastore.googleapis.com": "Cloud Datastore API",
    "logging.googleapis.com": "Cloud Logging API",
    "monitoring.googleapis.com": "Cloud Monitoring API",
    "servicemanagement.googleapis.com": "Service Management API",
    "serviceusage.googleapis.com": "Service Usage API",
    "sql-component.googleapis.com": "Cloud SQL",
    "storage-api.googleapis.com": "Google Cloud Storage JSON API",
    "storage-component.googleapis.com": "Cloud Storage",
}
# storage.googleapis.com is in that list too; here it is disabled at first, so that every API that the tutorial enables
# must be enabled.
OPTIONAL_APIS = {
    "artifactregistry.googleapis.com": "Artifact Registry API",
    "autoscaling.googleapis.com": "Cloud Autoscaling API",
    "cloudbilling.googleapis.com": "Cloud Billing API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "compute.googleapis.com": "Compute Engine API",
    "container.googleapis.com": "Kubernetes Engine API",
    "containerfilesystem.googleapis.com": "Container File System API",
    "containerregistry.googleapis.com": "Container Registry API",
    "dns.googleapis.com": "Cloud DNS API",
    "file.googleapis.com": "Cloud Filestore API",
    "gkebackup.googleapis.com": "Backup for GKE API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iamcredentials.googleapis.com": "IAM Service Account Credentials API",
    "lustre.googleapis.com": "Google Cloud Managed Lustre API",
    "networkconnectivity.googleapis.com": "Network Connectivity API",
    "orgpolicy.googleapis.com": "Organization Policy API",
    "oslogin.googleapis.com": "Cloud OS Login API",
    "pubsub.googleapis.com": "Cloud Pub/Sub API",
    "secretmanager.googleapis.com": "Secret Manager API",
    "servicenetworking.googleapis.com": "Service Networking API",
    "sqladmin.googleapis.com": "Cloud SQL Admin API",
    "storage.googleapis.com": "Cloud Storage API",
    "sts.googleapis.com": "Security Token Service API",
    "tpu.googleapis.com": "Cloud TPU API",
}
TITLES = DEFAULT_APIS | OPTIONAL_APIS
# Cannot be enabled without billing.
BILLABLE_APIS = {
    "artifactregistry.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerregistry.googleapis.com",
    "dns.googleapis.com",
    "file.googleapis.com",
    "lustre.googleapis.com",
    "secretmanager.googleapis.com",
    "tpu.googleapis.com",
}
# Enabling one enables the others (documented for GKE: compute, IAM, registry …; for the rest, pairs that every project
# has).
IMPLIED_APIS = {
    "compute.googleapis.com": ("oslogin.googleapis.com",),
    "container.googleapis.com": (
        "artifactregistry.googleapis.com",
        "autoscaling.googleapis.com",
        "compute.googleapis.com",
        "containerfilesystem.googleapis.com",
        "containerregistry.googleapis.com",
        "dns.googleapis.com",
        "gkebackup.googleapis.com",
        "iam.googleapis.com",
        "iamcredentials.googleapis.com",
        "networkconnectivity.googleapis.com",
        "oslogin.googleapis.com",
        "pubsub.googleapis.com",
    ),
    "iam.googleapis.com": ("iamcredentials.googleapis.com",),
}
