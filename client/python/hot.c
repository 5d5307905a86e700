// SPDX-License-Identifier: MIT
/*
 * kvd._hot: GET and PUT, the two calls of kvd for Python whose cost is mostly call overhead, as an
 * extension in place of ctypes. It is optional, and uses the stable ABI of Python 3.11: one file
 * works with 3.11 and all later versions. It is not linked with libkvd: ctypes has loaded libkvd
 * and passes the addresses of the functions.
 *
 * It handles only the simple cases. In all others (a key that is neither str nor bytes, a wrong
 * length, a buffer, a closed client) it does nothing and returns 0; the caller then uses ctypes,
 * which raises the errors. The caller holds the client's guard; the GIL is released meanwhile.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>

#include "client/kvd.h"

#define SCRATCH 16384 /* bytes of a value that needs no second GET */

PyMODINIT_FUNC PyInit__hot(void);

static enum kvd_status (*kvd_get_function)(struct kvd *, const void *, size_t, void *, size_t,
					   struct kvd_item *);
static enum kvd_status (*kvd_put_function)(struct kvd *, const void *, size_t, const void *, size_t,
					   const struct kvd_put_args *, uint64_t *);

/* init(get, put): the addresses of kvd_get() and kvd_put() */
static PyObject *init(PyObject *module, PyObject *args)
{
	unsigned long long get, put;

	(void)module;
	if (!PyArg_ParseTuple(args, "KK", &get, &put))
		return NULL;
	kvd_get_function = (__typeof__(kvd_get_function))(uintptr_t)get;
	kvd_put_function = (__typeof__(kvd_put_function))(uintptr_t)put;
	return Py_NewRef(Py_None);
}

/* The bytes of an exact str or bytes. 1: success; 0: it is something else; -1: an error */
static int bytes_of(PyObject *object, const char **data, Py_ssize_t *len)
{
	PyTypeObject *type = Py_TYPE(object);
	char *bytes;

	if (type == &PyUnicode_Type) {
		*data = PyUnicode_AsUTF8AndSize(object, len);
		return *data ? 1 : -1;
	}
	if (type != &PyBytes_Type)
		return 0;
	if (PyBytes_AsStringAndSize(object, &bytes, len))
		return -1;
	*data = bytes;
	return 1;
}

/* The client and the key of a call, as bytes_of() */
static int arguments_of(PyObject *const *args, struct kvd **handle, const char **key,
			Py_ssize_t *len)
{
	int is;

	if (args[0] == Py_None || !kvd_get_function)
		return 0;
	*handle = PyLong_AsVoidPtr(args[0]);
	if (!*handle)
		return PyErr_Occurred() ? -1 : 0;
	is = bytes_of(args[1], key, len);
	return is == 1 && (*len < 1 || *len > KVD_KEY_MAX) ? 0 : is;
}

/* A value longer than the scratch: another GET reads it to bytes of its length */
static PyObject *get_long(struct kvd *handle, const char *key, size_t key_len,
			  struct kvd_item *item)
{
	enum kvd_status status = KVD_ERR_BUFFER;
	PyObject *value = NULL;
	size_t len = 0;

	while (status == KVD_ERR_BUFFER) {
		PyThreadState *thread;
		char *data;

		Py_XDECREF(value);
		len = item->value_len;
		value = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
		if (!value)
			return NULL;
		data = PyBytes_AsString(value);
		thread = PyEval_SaveThread();
		status = kvd_get_function(handle, key, key_len, data, len, item);
		PyEval_RestoreThread(thread);
	}
	if (status == KVD_OK && item->value_len < len) {
		PyObject *part = PyBytes_FromStringAndSize(PyBytes_AsString(value),
							   (Py_ssize_t)item->value_len);

		Py_DECREF(value);
		return part;
	}
	if (status == KVD_OK)
		return value;
	Py_DECREF(value);
	if (status == KVD_NOT_FOUND)
		return Py_NewRef(Py_None);
	return PyLong_FromLong(status);
}

/* get(pointer, key) -> bytes, None, the status of an error, or 0 */
static PyObject *get(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	struct kvd_item item = { 0 };
	struct kvd *handle = NULL;
	PyThreadState *thread;
	enum kvd_status status;
	char scratch[SCRATCH];
	const char *key = NULL;
	Py_ssize_t len = 0;
	int is;

	(void)module;
	if (count != 2) {
		PyErr_SetString(PyExc_TypeError, "get(pointer, key)");
		return NULL;
	}
	is = arguments_of(args, &handle, &key, &len);
	if (is != 1)
		return is ? NULL : PyLong_FromLong(0);
	thread = PyEval_SaveThread();
	status = kvd_get_function(handle, key, (size_t)len, scratch, sizeof(scratch), &item);
	PyEval_RestoreThread(thread);
	if (status == KVD_OK)
		return PyBytes_FromStringAndSize(scratch, (Py_ssize_t)item.value_len);
	if (status == KVD_NOT_FOUND)
		return Py_NewRef(Py_None);
	if (status == KVD_ERR_BUFFER)
		return get_long(handle, key, (size_t)len, &item);
	return PyLong_FromLong(status);
}

/* put(pointer, key, value) -> the version, minus the status of an error, or 0 */
static PyObject *put(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	const char *key = NULL, *value = NULL;
	Py_ssize_t len = 0, value_len = 0;
	struct kvd *handle = NULL;
	PyThreadState *thread;
	enum kvd_status status;
	uint64_t version = 0;
	int is;

	(void)module;
	if (count != 3) {
		PyErr_SetString(PyExc_TypeError, "put(pointer, key, value)");
		return NULL;
	}
	is = arguments_of(args, &handle, &key, &len);
	if (is == 1)
		is = bytes_of(args[2], &value, &value_len);
	if (is != 1)
		return is ? NULL : PyLong_FromLong(0);
	thread = PyEval_SaveThread();
	status = kvd_put_function(handle, key, (size_t)len, value, (size_t)value_len, NULL,
				  &version);
	PyEval_RestoreThread(thread);
	return status == KVD_OK ? PyLong_FromUnsignedLongLong(version) :
				  PyLong_FromLong(-(long)status);
}

static PyMethodDef methods[] = {
	{ "init", init, METH_VARARGS, "init(get, put): addresses of kvd_get() and kvd_put()" },
	{ "get", (PyCFunction)(void (*)(void))get, METH_FASTCALL,
	  "get(pointer, key) -> bytes, None, a status, or 0: use ctypes" },
	{ "put", (PyCFunction)(void (*)(void))put, METH_FASTCALL,
	  "put(pointer, key, value) -> version, minus a status, or 0: use ctypes" },
	{ 0 },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_hot",
	.m_doc = "GET and PUT of libkvd, for kvd.Client alone.",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__hot(void)
{
	PyObject *module = PyModule_Create(&definition);

	/* The version of the kvd.h that it was compiled with. */
	if (module && (PyModule_AddIntMacro(module, KVD_VERSION_MAJOR) ||
		       PyModule_AddIntMacro(module, KVD_VERSION_MINOR))) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
