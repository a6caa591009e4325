"""The APIs and permissions that a deployment needs, with the smallest role that grants each permission."""

from __future__ import annotations

# The tutorial enables only the first three; serviceusage is enabled in every project.
APIS = (
    "container.googleapis.com",
    "storage.googleapis.com",
    "compute.googleapis.com",
    "lustre.googleapis.com",
    "servicenetworking.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudbilling.googleapis.com",
    "orgpolicy.googleapis.com",
)

# The smallest role that grants each required permission: https://cloud.google.com/iam/docs/roles-permissions
PERMISSIONS = {
    "compute.networks.create": "roles/compute.networkAdmin",
    "compute.subnetworks.create": "roles/compute.networkAdmin",
    "compute.globalAddresses.createInternal": "roles/compute.networkAdmin",
    "servicenetworking.services.addPeering": "roles/compute.networkAdmin",
    "compute.firewalls.create": "roles/compute.securityAdmin",
    "container.clusters.create": "roles/container.admin",
    "container.clusters.getCredentials": "roles/container.admin",
    "container.clusters.update": "roles/container.admin",
    "container.secrets.create": "roles/container.admin",
    "container.thirdPartyObjects.create": "roles/container.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "lustre.instances.create": "roles/lustre.admin",
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "cloudquotas.quotas.get": "roles/cloudquotas.viewer",
    "compute.reservations.get": "roles/compute.viewer",
}
