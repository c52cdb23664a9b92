/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a listener's certificate is still good, and goes with its key. */
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include "scheduler/ctl/doctor.h"

enum { SOON_S = 14 * 86400 };

static X509 *read_certificate(const char *path)
{
    FILE *file = fopen(path, "rb");
    X509 *cert = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    if (file != NULL)
        fclose(file);
    return cert;
}

static EVP_PKEY *read_key(const char *path)
{
    FILE *file = fopen(path, "rb");
    EVP_PKEY *key =
        file != NULL ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (file != NULL)
        fclose(file);
    return key;
}

void doctor_certificate(struct doctor *doctor, const char *program,
    const char *cert_path, const char *key_path)
{
    X509 *cert = read_certificate(cert_path);
    EVP_PKEY *key = read_key(key_path);
    time_t soon = time(NULL) + SOON_S;
    if (cert == NULL || key == NULL)
        doctor_find(doctor, "settings-certificate",
            "%s: %s is no PEM file of %s", program,
            cert == NULL ? cert_path : key_path,
            cert == NULL ? "a certificate" : "a private key");
    else if (X509_check_private_key(cert, key) != 1)
        doctor_find(doctor, "settings-certificate",
            "%s: the key of %s does not belong to %s", program, key_path,
            cert_path);
    else if (X509_cmp_time(X509_get0_notBefore(cert), NULL) > 0)
        doctor_find(doctor, "settings-certificate", "%s: %s is not valid yet",
            program, cert_path);
    else if (X509_cmp_time(X509_get0_notAfter(cert), NULL) < 0)
        doctor_find(doctor, "settings-certificate", "%s: %s has expired",
            program, cert_path);
    else if (X509_cmp_time(X509_get0_notAfter(cert), &soon) < 0)
        doctor_find(doctor, "settings-certificate-soon",
            "%s: %s expires within 14 days", program, cert_path);
    EVP_PKEY_free(key);
    X509_free(cert);
}
