// OpenSSL as Swift sees it: the headers, inline functions for what OpenSSL offers only as macros or
// with variable arguments, and one BIO that reads and writes the caller's memory.
#pragma once
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <sys/prctl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

// The BIO of a session without sockets: ciphertext comes from the caller's buffer and goes straight
// into the caller's buffer, without a copy in between. What does not fit there (a long certificate
// chain in a handshake, say) is kept in `spill` for the caller to fetch.
typedef struct carillon_io {
  const unsigned char *input;
  size_t input_count;
  unsigned char *output;
  size_t output_count;
  size_t output_capacity;
  unsigned char *spill;
  size_t spill_count;
  size_t spill_capacity;
} carillon_io;

static int carillon_io_read(BIO *bio, char *destination, int capacity) {
  carillon_io *io = (carillon_io *)BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (io == NULL || destination == NULL || capacity <= 0) return 0;
  if (io->input_count == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t count = io->input_count < (size_t)capacity ? io->input_count : (size_t)capacity;
  memcpy(destination, io->input, count);
  io->input += count;
  io->input_count -= count;
  return (int)count;
}

static int carillon_io_write(BIO *bio, const char *source, int count_wanted) {
  carillon_io *io = (carillon_io *)BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (io == NULL || source == NULL || count_wanted <= 0) return 0;
  size_t count = (size_t)count_wanted;
  // Once something has spilled, everything after it spills too: the order of records must hold.
  if (io->spill_count == 0 && io->output_capacity - io->output_count >= count) {
    memcpy(io->output + io->output_count, source, count);
    io->output_count += count;
    return count_wanted;
  }
  if (io->spill_capacity - io->spill_count < count) {
    size_t capacity = io->spill_capacity < 4096 ? 4096 : io->spill_capacity;
    while (capacity - io->spill_count < count) capacity *= 2;
    unsigned char *grown = (unsigned char *)realloc(io->spill, capacity);
    if (grown == NULL) return -1;
    io->spill = grown;
    io->spill_capacity = capacity;
  }
  memcpy(io->spill + io->spill_count, source, count);
  io->spill_count += count;
  return count_wanted;
}

static long carillon_io_ctrl(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int carillon_io_create(BIO *bio) {
  BIO_set_init(bio, 1);
  return 1;
}

static inline BIO_METHOD *carillon_io_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "carillon");
  if (method == NULL) return NULL;
  BIO_meth_set_read(method, carillon_io_read);
  BIO_meth_set_write(method, carillon_io_write);
  BIO_meth_set_ctrl(method, carillon_io_ctrl);
  BIO_meth_set_create(method, carillon_io_create);
  return method;
}

// Macros and functions with variable arguments.
// Other processes of the same user cannot read this one's memory, and no core file has it.
static inline int carillon_hide_memory(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }
static inline int carillon_set_min_version(SSL_CTX *context, int version) { return (int)SSL_CTX_set_min_proto_version(context, version); }
static inline int carillon_set_max_version(SSL_CTX *context, int version) { return (int)SSL_CTX_set_max_proto_version(context, version); }
static inline void carillon_set_read_ahead(SSL_CTX *context) { SSL_CTX_set_read_ahead(context, 1); }
static inline void carillon_set_mode(SSL_CTX *context, long mode) { (void)SSL_CTX_set_mode(context, mode); }
static inline void carillon_set_session_cache_off(SSL_CTX *context) { (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); }
static inline void carillon_set_server_sessions(SSL_CTX *context) { (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER); }
// New sessions are told by the call-back alone.
static inline void carillon_set_client_tickets(SSL_CTX *context) {
  (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}
static inline int carillon_set_server_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }
static inline EVP_PKEY *carillon_make_rsa_key(unsigned int bits) { return EVP_RSA_gen(bits); }
static inline EVP_PKEY *carillon_make_ec_key(const char *curve) { return EVP_EC_gen(curve); }
static inline long carillon_bio_bytes(BIO *bio, const unsigned char **bytes) { return BIO_get_mem_data(bio, (char **)bytes); }
static inline const unsigned char *carillon_string_bytes(const ASN1_STRING *string) { return ASN1_STRING_get0_data(string); }

static inline STACK_OF(X509) *carillon_certificates_new(void) { return sk_X509_new_null(); }
static inline int carillon_certificates_count(const STACK_OF(X509) *stack) { return stack == NULL ? 0 : sk_X509_num(stack); }
static inline X509 *carillon_certificates_at(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline int carillon_certificates_push(STACK_OF(X509) *stack, X509 *certificate) { return sk_X509_push(stack, certificate); }
// Frees the stack alone; the certificates stay with whoever owns them.
static inline void carillon_certificates_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
// Frees the stack and gives back its reference to each certificate.
static inline void carillon_certificates_free_all(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

static inline int carillon_names_count(const GENERAL_NAMES *names) { return names == NULL ? 0 : sk_GENERAL_NAME_num(names); }
static inline GENERAL_NAME *carillon_names_at(const GENERAL_NAMES *names, int index) { return sk_GENERAL_NAME_value(names, index); }

// A number that is negative, missing or too large counts as the largest there is.
static inline int64_t carillon_number(const ASN1_INTEGER *integer) {
  int64_t number = 0;
  return integer == NULL || ASN1_INTEGER_get_int64(&number, integer) != 1 || number < 0 ? INT64_MAX : number;
}

// How many rounds of hashing an encryption asks for to make its key out of a passphrase; for scrypt
// the product of its parameters. 0 where the parameters cannot be read: then OpenSSL derives
// nothing.
static inline int64_t carillon_derivation_rounds(const X509_ALGOR *algorithm) {
  int64_t rounds = 0;
  if (algorithm == NULL) return 0;
  if (OBJ_obj2nid(algorithm->algorithm) != NID_pbes2) {
    PBEPARAM *parameters = (PBEPARAM *)ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(PBEPARAM), algorithm->parameter);
    if (parameters != NULL) rounds = carillon_number(parameters->iter);
    PBEPARAM_free(parameters);
    return rounds;
  }
  PBE2PARAM *parameters = (PBE2PARAM *)ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(PBE2PARAM), algorithm->parameter);
  if (parameters == NULL) return 0;
  if (OBJ_obj2nid(parameters->keyfunc->algorithm) == NID_id_scrypt) {
    const ASN1_TYPE *inner = parameters->keyfunc->parameter;
    SCRYPT_PARAMS *scrypt = (SCRYPT_PARAMS *)ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(SCRYPT_PARAMS), inner);
    if (scrypt != NULL) {
      int64_t factors[3] = {
        carillon_number(scrypt->costParameter), carillon_number(scrypt->blockSize),
        carillon_number(scrypt->parallelizationParameter)
      };
      rounds = 1;
      for (int index = 0; index < 3; index++) {
        if (__builtin_mul_overflow(rounds, factors[index], &rounds)) rounds = INT64_MAX;
      }
    }
    SCRYPT_PARAMS_free(scrypt);
  } else {
    const ASN1_TYPE *inner = parameters->keyfunc->parameter;
    PBKDF2PARAM *pbkdf2 = (PBKDF2PARAM *)ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(PBKDF2PARAM), inner);
    if (pbkdf2 != NULL) rounds = carillon_number(pbkdf2->iter);
    PBKDF2PARAM_free(pbkdf2);
  }
  PBE2PARAM_free(parameters);
  return rounds;
}

static inline int64_t carillon_mac_rounds(const PKCS12 *container) {
  const ASN1_INTEGER *iterations = NULL;
  PKCS12_get0_mac(NULL, NULL, NULL, &iterations, container);
  return iterations == NULL ? 1 : carillon_number(iterations);
}

static inline int64_t carillon_safe_rounds(const PKCS7 *safe) {
  const PKCS7_ENCRYPT *encrypted = safe->d.encrypted;
  return encrypted == NULL || encrypted->enc_data == NULL ? 0 : carillon_derivation_rounds(encrypted->enc_data->algorithm);
}

static inline int64_t carillon_signature_rounds(const X509_SIG *encrypted) {
  const X509_ALGOR *algorithm = NULL;
  if (encrypted == NULL) return 0;
  X509_SIG_get0(encrypted, &algorithm, NULL);
  return carillon_derivation_rounds(algorithm);
}

// Names as RFC 2253 writes them, but in the certificate's order, with spaces, and with UTF-8 as it
// is.
static const unsigned long carillon_name_format = (XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB & ~XN_FLAG_DN_REV & ~XN_FLAG_SEP_MASK) | XN_FLAG_SEP_CPLUS_SPC;

// SHA-256. The functions that EVP offers since OpenSSL 3 allocate for each digest, which costs more
// than the digest of a notification, and which can fail.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline void carillon_sha256_begin(SHA256_CTX *context) { SHA256_Init(context); }
static inline void carillon_sha256_add(SHA256_CTX *context, const void *bytes, size_t count) { SHA256_Update(context, bytes, count); }
static inline void carillon_sha256_end(SHA256_CTX *context, void *digest) { SHA256_Final((unsigned char *)digest, context); }
static inline void carillon_sha256(const void *bytes, size_t count, void *digest) {
  SHA256_CTX context;
  carillon_sha256_begin(&context);
  carillon_sha256_add(&context, bytes, count);
  carillon_sha256_end(&context, digest);
}
#pragma GCC diagnostic pop

// The 32 bytes of HMAC-SHA256; 0: OpenSSL has failed.
static inline int carillon_hmac_sha256(const void *key, int key_count, const void *bytes, size_t count, void *code) {
  return HMAC(EVP_sha256(), key, key_count, (const unsigned char *)bytes, count, (unsigned char *)code, NULL) != NULL;
}

static const uint64_t carillon_option_no_ticket = SSL_OP_NO_TICKET;
static const int carillon_utf8_text = MBSTRING_UTF8;
